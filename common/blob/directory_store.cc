// Audio in segments: files of many blobs, appended and flushed by the batch. A file for each blob
// was measured at 45-110 us of CPU (20 KB, ext4), most of it for the inode, and at far more for a
// minute after many files had been deleted: ext4 avoids their inodes. And every file system has
// fewer inodes than a service of some years has tasks.
//
// A blob is a header of 128 bytes and its bytes, from a multiple of the block size on, so that
// removing it frees exactly its blocks. The key says where it lies; seals (blob_seals.h) in the key
// and in the header prove that both are ours: the samples between headers are whatever a provider
// sent, and may hold what looks like one. Nobody hears of a key before its settlement, so nobody
// meets half a blob. After a crash nobody appends to a segment any more: there is nothing to
// repair.
//
// Whoever appends to a segment holds a shared lock on it (flock(2)), which ends with its process;
// whoever removes one needs the exclusive lock. A clock that is ahead would else take an open
// segment for an old one, and all that is appended to it from then on would be nowhere. Where there
// are no locks the clock decides alone, and a put fails whose segment has no name any more.
//
// Where no part of a file can be freed (NFS before 4.2) a removed blob leaves its header behind,
// sealed anew and without a name: it says how much there is to pass over, and nobody's samples can
// say it.
//
// Releases before seals wrote segments without a suffix in their file's name, and keys without a
// seal. Each kind of key opens its own kind of file only, so a key without a seal opens nothing
// that was written since; and no blob's header in an old segment is believed but that of a key.
#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <set>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/occasionally.h"
#include "common/base/unique_fd.h"
#include "common/blob/blob_key.h"
#include "common/blob/blob_store.h"

namespace audiogen {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kBlock = kBlobBlock;
constexpr std::size_t kSlot = 6;   // Characters of a segment's name.
constexpr std::size_t kTime = 10;  // Characters that carry its milliseconds.
constexpr std::size_t kRandom = kSegmentName - kTime;
constexpr std::size_t kIdLength = 26;
constexpr auto kSlotLength = std::chrono::milliseconds(1 << 20);
constexpr int kBegins = 5;  // Tries to begin a segment that nobody removes meanwhile.
// Holds the name of the last slot checked, and behind it those that were left for later.
constexpr const char* kChecked = "/checked";
constexpr std::size_t kLeftMax = 64;  // 19 h of segments.
constexpr const char* kOwnKey = "/key";
constexpr std::size_t kOwnKeyLength = 52;         // Characters of 5 random bits.
constexpr std::string_view kSealed = ".2", kOld;  // Suffixes of a segment's file.

using Magic = std::array<char, 8>;
constexpr Magic kOldMagic{'A', 'G', 'b', 'l', 'o', 'b', '1', '\n'};

// Of a blob, or of what was removed: that has no name.
struct Header {
  Magic magic{'A', 'G', 'b', 'l', 'o', 'b', '2', '\n'};
  std::int64_t written_at = 0;  // Seconds since the epoch.
  std::uint64_t length = 0;
  std::array<char, 72> name{};  // Zeros follow it.
  Sha256 seal{};                // Zeros before there were seals.
};
static_assert(sizeof(Header) == 128 && std::has_unique_object_representations_v<Header> &&
              std::endian::native == std::endian::little);
constexpr auto kHeader = static_cast<std::int64_t>(sizeof(Header));

// What a blob of so many bytes takes of its segment.
std::int64_t space_of(std::uint64_t length) {
  AG_CHECK(length <= kBlobMax);
  return (kHeader + static_cast<std::int64_t>(length) + kBlock - 1) / kBlock * kBlock;
}

Error failure(const char* what) {
  return Error{std::string("blob store: ") + what + ": " + std::generic_category().message(errno)};
}

constexpr std::array<char, kBlock> kZeros{};

bool write_all(int fd, std::span<iovec> parts, std::int64_t at) {
  while (!parts.empty()) {
    const ssize_t count = ::pwritev(fd, parts.data(), static_cast<int>(parts.size()), at);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      return false;
    }
    at += count;
    auto rest = static_cast<std::size_t>(count);
    while (!parts.empty() && rest >= parts.front().iov_len) {
      rest -= parts.front().iov_len;
      parts = parts.subspan(1);
    }
    if (rest > 0) {
      parts.front().iov_base = static_cast<char*>(parts.front().iov_base) + rest;
      parts.front().iov_len -= rest;
    }
  }
  return true;
}

// Zeros over `size` bytes from `from` on.
bool wipe(int fd, std::int64_t from, std::int64_t size) {
  while (size > 0) {
    const std::int64_t count = std::min(size, kBlock);
    // Nothing is written to through it.
    std::array<iovec, 1> part{
        {{const_cast<char*>(kZeros.data()), static_cast<std::size_t>(count)}}};
    if (!write_all(fd, part, from)) {
      return false;
    }
    from += count;
    size -= count;
  }
  return true;
}

bool flush_folder(const std::string& path) {
  const UniqueFd open(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return open.get() >= 0 && ::fsync(open.get()) == 0;
}

// What stands at `at`, or nullopt when it has not the form of a header: then none begins there.
Result<std::optional<Header>> header_at(int fd, std::int64_t at) {
  Header header;
  const ssize_t count = ::pread(fd, &header, sizeof header, at);
  if (count < 0) {
    return failure("read");
  }
  const bool known = header.magic == Header{}.magic || header.magic == kOldMagic;
  return count == kHeader && known && header.length <= kBlobMax ? std::optional(header)
                                                                : std::nullopt;
}

std::string_view name_in(const Header& header) {
  const std::string_view all(header.name.data(), header.name.size());
  return all.substr(0, all.find('\0'));
}

// The header of the blob at this very place, if it is there. `seal` is that of the place.
Result<std::optional<Header>> find_blob(int fd, const BlobPlace& place, const Sha256& seal) {
  auto header = header_at(fd, place.offset);
  if (header && *header &&
      ((*header)->length != place.length || name_in(**header) != place.name ||
       (*header)->seal != seal)) {
    return std::optional<Header>();
  }
  return header;
}

// The seal that the header of a place must have; nullopt when its key is not one of ours.
std::optional<Sha256> seal_for(const BlobSeals& seals, const BlobPlace& place) {
  return place.seal.empty() ? Sha256{} : seals.whole(place);
}

// Calls `visit` with the place that each header in `segment` from `from` on says of itself, and
// whether it is sealed by us, for as long as it says true. The place of what was removed has no
// name; a header that is not ours may be a blob of another key, or somebody's samples.
Result<Done> walk(int fd,
                  std::string_view segment,
                  std::int64_t from,
                  const BlobSeals& seals,
                  const std::function<bool(const BlobPlace& place, bool ours)>& visit) {
  for (std::int64_t at = from;;) {
    // What was freed is a hole, and so passed over.
    at = ::lseek(fd, at, SEEK_DATA);
    if (at < 0) {
      return errno == ENXIO ? Result<Done>(Done{}) : failure("seek");
    }
    const auto header = header_at(fd, at);
    if (!header) {
      return header.error();
    }
    bool ours = false;
    if (*header) {
      const std::string seal = BlobSeals::text((*header)->seal);
      const BlobPlace place{.segment = segment,
                            .offset = at,
                            .length = (*header)->length,
                            .name = name_in(**header),
                            .seal = seal};
      ours = seals.fits(place, (*header)->seal);
      if (!visit(place, ours)) {
        return Done{};
      }
    }
    // Else it is the rest of a batch that a crash cut off, with whatever a provider sent in it.
    at = ours ? at + space_of((*header)->length) : (at / kBlock + 1) * kBlock;
  }
}

// Whether no blob, whoever's, begins in `segment` from `from` on. False where nobody can tell.
bool is_empty(int fd, std::string_view segment, std::int64_t from, const BlobSeals& seals) {
  bool empty = true;
  const auto walked = walk(fd, segment, from, seals, [&](const BlobPlace& place, bool ours) {
    empty = ours && place.name.empty();
    return empty;
  });
  return walked && empty;
}

// All of a blob at once or, where no part of a file can be freed, its header last, on the disk as
// well: while that is there, whoever removes it again finds what is left.
Result<Done> free_blob(int fd, const BlobPlace& place, const BlobSeals& seals) {
  constexpr int kFree = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  const std::int64_t space = space_of(place.length);
  // No sum here can overflow: see BlobPlace.
  if (::fallocate(fd, kFree, place.offset, space) == 0) {
    return Done{};
  }
  if (errno != EOPNOTSUPP || !wipe(fd, place.offset + kHeader, space - kHeader) ||
      ::fdatasync(fd) != 0) {
    return failure("free");
  }
  BlobPlace removed = place;
  removed.name = {};
  Header header;
  header.length = place.length;
  header.seal = seals.make(removed);
  std::array<iovec, 1> part{{{&header, sizeof header}}};
  return write_all(fd, part, place.offset) ? Result<Done>(Done{}) : failure("free");
}

std::string slot_of(Instant at) {
  return encode_base32(first_uuid_at(at)).substr(0, kSlot);
}

// Nullopt for anything but the folder of a slot.
std::optional<BlobSlot> slot_named(const std::string& name) {
  const auto first = decode_base32(name + std::string(kIdLength - kSlot, '0'));
  return name.size() == kSlot && first ? std::optional(BlobSlot{name, made_at(*first)})
                                       : std::nullopt;
}

// The key that the folder keeps for itself, so that nothing has to be set: whoever can read the
// folder hears everything in it anyway. With `make`, makes it where there is none; of several
// processes one does.
Result<std::optional<std::string>> own_key(const std::string& folder, bool make) {
  const std::string path = folder + kOwnKey;
  const auto refused = [&](const char* what) {
    return Error{"BLOB_URL: cannot " + std::string(what) + " " + path + ": " +
                 std::generic_category().message(errno) + "; or set BLOB_SIGNING_KEY"};
  };
  for (;;) {
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (file.get() >= 0) {
      std::string key(kOwnKeyLength, '\0');
      const ssize_t count = ::read(file.get(), key.data(), key.size());
      if (count != static_cast<ssize_t>(key.size())) {
        errno = count < 0 ? errno : ENODATA;
        return refused("read");
      }
      return std::optional(std::move(key));
    }
    if (errno != ENOENT) {
      return refused("read");
    }
    if (!make) {
      return std::optional<std::string>();
    }
    // Under its name only once it is whole and durable.
    const std::string temporary = path + '-' + random_base32(8);
    const std::string key = random_base32(kOwnKeyLength);
    const UniqueFd made(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    const bool written =
        made.get() >= 0 &&
        ::write(made.get(), key.data(), key.size()) == static_cast<ssize_t>(key.size()) &&
        ::fsync(made.get()) == 0 &&
        (::link(temporary.c_str(), path.c_str()) == 0 || errno == EEXIST);
    const int why = errno;
    ::unlink(temporary.c_str());
    if (!written || !flush_folder(folder)) {
      errno = written ? errno : why;
      return refused("write");
    }
  }
}

// Sorted names of what is in `folder`; none where there is no such folder.
Result<std::vector<std::string>> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    errno = error.value();
    return failure("list");
  }
  std::sort(names.begin(), names.end());
  return names;
}

// The segments with seals in the folder of a slot.
Result<std::vector<std::string>> segments_in(const std::string& folder) {
  const auto names = names_in(folder);
  if (!names) {
    return names.error();
  }
  std::vector<std::string> segments;
  for (const std::string& name : *names) {
    if (name.ends_with(kSealed) && name.size() == kSegmentName + kSealed.size()) {
      segments.push_back(name.substr(0, kSegmentName));
    }
  }
  return segments;
}

// Before segments every blob was a file: "01m7z/5s/<name>".
std::string old_path(const std::string& folder, std::string_view name) {
  std::string path = folder;
  path.append("/").append(name.substr(0, 5)).append("/").append(name.substr(5, 2));
  return path.append("/").append(name);
}

// Takes the lock `how`, LOCK_SH or LOCK_EX, until the descriptor is closed. False: somebody else
// has one that excludes it. Where there are no locks (ENOLCK, EOPNOTSUPP, …) nobody has.
bool lock_segment(int fd, int how) {
  return ::flock(fd, how | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

// Whether what is appended to it can be found again: somebody who took it for an old one, without
// any blob, may have removed it.
bool has_name(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 && info.st_nlink > 0;
}

// Removes `path`, and of the `folders` above it those that this leaves empty.
Result<Removal> remove_file(std::string path, int folders) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return failure("unlink");
  }
  do {
    path.resize(path.rfind('/'));  // Fails, harmlessly, while there is something in it.
  } while (::rmdir(path.c_str()) == 0 && --folders > 0);
  return Removal::kGone;
}

}  // namespace

DirectoryStore::DirectoryStore(std::string folder, DirectoryOptions options)
    : folder_(std::move(folder)), options_(std::move(options)), seals_(options_.keys) {}

DirectoryStore::~DirectoryStore() {
  leave_segment();
}

Result<std::unique_ptr<DirectoryStore>> DirectoryStore::open(const std::string& folder,
                                                             DirectoryOptions options) {
  std::error_code error;
  if (fs::create_directories(folder, error)) {
    fs::permissions(folder, fs::perms::owner_all, error);
  }
  if (error || !fs::is_directory(folder, error)) {
    return Error{"BLOB_URL: cannot make the folder " + folder + ": " + error.message()};
  }
  auto own = own_key(folder, options.keys.empty());
  if (!own) {
    return own.error();
  }
  if (*own) {
    options.keys.push_back(std::move(**own));
  }
  if (!options.clock) {
    options.clock = local_now;
  }
  return std::unique_ptr<DirectoryStore>(new DirectoryStore(folder, std::move(options)));
}

std::string DirectoryStore::path_of(std::string_view segment, std::string_view suffix) const {
  std::string path = folder_;
  path.append("/").append(segment.substr(0, kSlot)).append("/").append(segment);
  return path.append(suffix);
}

std::string DirectoryStore::path_of(std::string_view key, const BlobPlace& place) const {
  return place.segment.empty() ? old_path(folder_, key)
                               : path_of(place.segment, place.seal.empty() ? kOld : kSealed);
}

PutShape DirectoryStore::put_shape() const {
  return {.threads = 1, .batch_max = 128};  // A second one would only make batches smaller.
}

std::vector<PutResult> DirectoryStore::put(std::span<const NewBlob> blobs) {
  const MutexLock lock(mutex_);
  if (!segment_.fd || segment_.end >= options_.segment_max ||
      !segment_.name.starts_with(slot_of(options_.clock()))) {
    if (const auto begun = begin_segment(); !begun) {
      return std::vector<PutResult>(blobs.size(), PutFault{begun.error().message});
    }
  }
  const std::int64_t begin = segment_.end;
  std::vector<PutResult> keys;
  keys.reserve(blobs.size());
  for (const NewBlob& blob : blobs) {
    keys.push_back(append(blob));
  }
  AG_CRASH_POINT("blob.written");
  if (::fdatasync(segment_.fd.get()) != 0) {
    PutFault fault{failure("flush").message};
    // It is offered again, and must not fill a full disk a little more each time.
    const bool undone = begin > 0
                            ? ::ftruncate(segment_.fd.get(), begin) == 0
                            : static_cast<bool>(remove_file(path_of(segment_.name, kSealed), 1));
    if (!undone) {
      fault.message += ", and what was written takes up space";
    }
    leave_segment();  // What the kernel still has of it is anybody's guess.
    std::fill(keys.begin(), keys.end(), fault);
  } else if (!has_name(segment_.fd.get())) {
    leave_segment();
    std::fill(keys.begin(), keys.end(), PutFault{"blob store: the segment was removed"});
  }
  return keys;
}

PutResult DirectoryStore::append(const NewBlob& blob) {
  const auto name = parse_blob_key(blob.name);
  AG_CHECK(name && name->segment.empty());
  BlobPlace place{.segment = segment_.name,
                  .offset = segment_.end,
                  .length = blob.bytes.size(),
                  .name = blob.name,
                  .seal = {}};
  if (place.length > kBlobMax || place.offset > kOffsetMax) {
    return PutFault{.message = "blob store: more than " + std::to_string(kBlobMax) + " bytes",
                    .of_this_blob = true};
  }
  Header header;
  header.written_at =
      std::chrono::floor<std::chrono::seconds>(options_.clock()).time_since_epoch().count();
  header.length = blob.bytes.size();
  AG_CHECK(blob.name.size() <= header.name.size());
  std::copy(blob.name.begin(), blob.name.end(), header.name.begin());
  header.seal = seals_.make(place);
  const std::int64_t space = space_of(blob.bytes.size());
  const auto padding = static_cast<std::size_t>(space) - sizeof header - blob.bytes.size();
  // Nothing is written to through these.
  std::array<iovec, 3> parts{{{&header, sizeof header},
                              {const_cast<char*>(blob.bytes.data()), blob.bytes.size()},
                              {const_cast<char*>(kZeros.data()), padding}}};
  if (!write_all(segment_.fd.get(), parts, segment_.end)) {
    PutFault fault{failure("write").message};
    if (::ftruncate(segment_.fd.get(), segment_.end) != 0) {
      fault.message += ", and it takes up space until the next one";
    }
    return fault;
  }
  segment_.end += space;
  const std::string seal = BlobSeals::text(header.seal);
  place.seal = seal;
  std::string key = make_blob_key(place);
  AG_CHECK(key.size() <= kBlobKeyMax);
  return key;
}

Result<Done> DirectoryStore::begin_segment() {
  leave_segment();
  for (int i = 0; i < kBegins; ++i) {
    std::string name = encode_base32(first_uuid_at(options_.clock())).substr(0, kTime);
    name += random_base32(kRandom);
    const std::string path = path_of(name, kSealed);
    const std::string folder = path.substr(0, path.rfind('/'));
    if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
      return failure("mkdir");
    }
    // To be read as well: NFS gives shared locks to nobody else.
    UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (file.get() < 0 && errno != ENOENT) {
      return failure("open");
    }
    if (file.get() < 0 || !lock_segment(file.get(), LOCK_SH) || !has_name(file.get())) {
      continue;  // Somebody removes it, or has before it was locked, or its folder.
    }
    if (!flush_folder(folder) || !flush_folder(folder_)) {
      return failure("flush");
    }
    segment_ = {.fd = std::move(file), .name = std::move(name), .end = 0};
    return Done{};
  }
  return Error{"blob store: each new segment is removed at once"};
}

// Whoever has removed its last blob meanwhile had to leave its file to us.
void DirectoryStore::leave_segment() {
  if (segment_.fd && is_empty(segment_.fd.get(), segment_.name, 0, seals_)) {
    static_cast<void>(remove_file(path_of(segment_.name, kSealed), 1));
  }
  segment_ = {};
}

// Removes a segment, open as `fd`, if it holds no blob and nobody appends to it. Who has locked it
// removes it: at once, or once it is left.
Result<Done> DirectoryStore::drop_if_empty(int fd,
                                           std::string_view segment,
                                           const std::string& path) {
  if (!is_empty(fd, segment, 0, seals_)) {
    return Done{};
  }
  if (!lock_segment(fd, LOCK_EX)) {
    const MutexLock lock(mutex_);
    if (segment_.name == segment) {
      leave_segment();  // It is our own, and of an old slot.
    }
    return Done{};
  }
  // Before it was locked something may have been appended.
  if (!is_empty(fd, segment, 0, seals_)) {
    return Done{};
  }
  const auto removed = remove_file(path, 1);
  return removed ? Result<Done>(Done{}) : removed.error();
}

Result<Removal> DirectoryStore::remove(std::string_view key, const std::stop_token& /*stop*/) {
  const auto place = parse_blob_key(key);
  if (!place) {
    return Removal::kNotOurs;
  }
  if (place->segment.empty()) {
    return remove_file(path_of(key, *place), 2);
  }
  const std::string path = path_of(key, *place);
  const UniqueFd file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (file.get() < 0) {
    return errno == ENOENT ? Result<Removal>(Removal::kGone) : failure("open");
  }
  const auto seal = seal_for(seals_, *place);
  // Without the key nobody can tell whose a header is, but that there is none everybody can.
  const auto header =
      seal ? find_blob(file.get(), *place, *seal) : header_at(file.get(), place->offset);
  if (!header) {
    return header.error();
  }
  if (*header && !name_in(**header).empty()) {
    if (!seal) {
      return Removal::kNotOurs;
    }
    if (const auto freed = free_blob(file.get(), *place, seals_); !freed) {
      return freed.error();
    }
  }
  // What is removed is as a rule the oldest, so what follows it tells soonest that there is more.
  if (place->segment < slot_of(options_.clock() - kSlotLength) &&
      is_empty(file.get(), place->segment, place->offset, seals_)) {
    if (const auto dropped = drop_if_empty(file.get(), place->segment, path); !dropped) {
      return dropped.error();
    }
  }
  return Removal::kGone;
}

Result<Done> DirectoryStore::flush_removed(std::span<const std::string> keys) {
  std::set<std::string> paths;
  for (const std::string& key : keys) {
    if (const auto place = parse_blob_key(key)) {
      paths.insert(path_of(key, *place));
    }
  }
  for (std::string path : paths) {
    // Where a file is gone as well, the folder that says so.
    UniqueFd open(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    while (open.get() < 0 && errno == ENOENT && path.size() > folder_.size()) {
      path.resize(path.rfind('/'));
      open = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    }
    if (open.get() < 0 || ::fsync(open.get()) != 0) {
      return failure("flush");
    }
  }
  return Done{};
}

Result<std::optional<OpenBlob>> DirectoryStore::read(std::string_view key) const {
  const std::optional<OpenBlob> missing;
  const auto place = parse_blob_key(key);
  const auto seal = place ? seal_for(seals_, *place) : std::nullopt;
  if (!seal) {
    return missing;
  }
  const bool alone = place->segment.empty();
  if (!alone && place->seal.empty() && !options_.reads_unsealed) {
    static Occasionally line(std::chrono::minutes(1));
    if (line.due()) {
      // Else nobody could tell it from one that is lost.
      log::warn("an output of a release before seals was asked for, and is refused",
                {{"setting", "BLOB_UNSEALED"}});
    }
    return missing;
  }
  const std::string path = path_of(key, *place);
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (file.get() < 0) {
    return errno == ENOENT ? Result<std::optional<OpenBlob>>(missing) : failure("open");
  }
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) {
    return failure("stat");
  }
  if (!S_ISREG(info.st_mode)) {
    return missing;
  }
  if (alone) {
    return std::optional(
        OpenBlob{.fd = file.release(), .size = info.st_size, .modified = info.st_mtim.tv_sec});
  }
  const auto header = find_blob(file.get(), *place, *seal);
  if (!header) {
    return header.error();
  }
  if (!*header || place->offset > info.st_size ||
      space_of(place->length) > info.st_size - place->offset) {
    return missing;
  }
  return std::optional(OpenBlob{.fd = file.release(),
                                .offset = place->offset + kHeader,
                                .size = static_cast<std::int64_t>(place->length),
                                .modified = (*header)->written_at});
}

DirectoryStore::Checked DirectoryStore::checked() const {
  std::ifstream file(folder_ + kChecked);
  Checked out;
  file >> out.last;
  if (!slot_named(out.last)) {
    return {};  // No such file, or a spoilt one: from the oldest on.
  }
  for (std::string name; file >> name;) {
    if (slot_named(name) && name <= out.last && out.left.size() < kLeftMax) {
      out.left.insert(name);
    }
  }
  return out;
}

std::vector<BlobSlot> DirectoryStore::unchecked(Instant end, std::size_t limit) const {
  const Checked checked = this->checked();
  const std::string to = slot_of(end);
  std::vector<BlobSlot> slots, left;
  const auto names = names_in(folder_);
  if (!names) {
    return slots;
  }
  for (const std::string& name : *names) {
    auto slot = slot_named(name);
    if (slot && checked.left.contains(name)) {
      slot->left = true;
      left.push_back(*std::move(slot));
    } else if (slot && name > checked.last && name < to && slots.size() < limit) {
      slots.push_back(*std::move(slot));
    }
  }
  slots.insert(slots.end(), left.begin(), left.end());
  return slots;
}

Result<Done> DirectoryStore::for_each(
    const BlobSlot& slot, const std::function<bool(const std::string& key)>& visit) const {
  const auto segments = segments_in(folder_ + '/' + slot.folder);
  if (!segments) {
    return segments.error();
  }
  Result<Done> out = Done{};
  bool goes_on = true;
  for (std::size_t i = 0; goes_on && i < segments->size(); ++i) {
    const std::string& segment = (*segments)[i];
    const UniqueFd file(
        ::open(path_of(segment, kSealed).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (file.get() < 0 && errno == ENOENT) {
      continue;
    }
    Result<Done> walked = file.get() < 0 ? failure("open") : Result<Done>(Done{});
    if (walked) {
      walked = walk(file.get(), segment, 0, seals_, [&](const BlobPlace& place, bool ours) {
        goes_on = !ours || place.name.empty() || visit(make_blob_key(place));
        return goes_on;
      });
    }
    if (out && !walked) {
      out = std::move(walked);
    }
  }
  return out;
}

Result<Done> DirectoryStore::drop_empty(const BlobSlot& slot) {
  const auto segments = segments_in(folder_ + '/' + slot.folder);
  if (!segments) {
    return segments.error();
  }
  Result<Done> out = Done{};
  for (const std::string& segment : *segments) {
    const std::string path = path_of(segment, kSealed);
    // To be written to as well: NFS gives exclusive locks to nobody else.
    const UniqueFd file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    if (file.get() < 0) {
      continue;  // What cannot be opened for_each() tells of.
    }
    auto dropped = drop_if_empty(file.get(), segment, path);
    if (out && !dropped) {
      out = std::move(dropped);
    }
  }
  return out;
}

Result<Done> DirectoryStore::mark_checked(const BlobSlot& slot) {
  Checked checked = this->checked();
  checked.left.erase(slot.folder);
  checked.last = std::max(checked.last, slot.folder);
  return write_checked(checked);
}

Result<Done> DirectoryStore::leave_for_later(const BlobSlot& slot) {
  Checked checked = this->checked();
  std::erase_if(checked.left, [this](const std::string& name) {
    std::error_code error;
    return !fs::exists(folder_ + '/' + name, error) && !error;
  });
  checked.left.insert(slot.folder);
  if (checked.left.size() > kLeftMax) {
    return Error{"blob store: too many folders cannot be read"};
  }
  checked.last = std::max(checked.last, slot.folder);
  return write_checked(checked);
}

Result<Done> DirectoryStore::write_checked(const Checked& checked) const {
  // Not flushed: after a power cut some slots are looked at again.
  const std::string path = folder_ + kChecked;
  const std::string temporary = path + '-' + random_base32(8);
  std::string text = checked.last;
  for (const std::string& name : checked.left) {
    text.append("\n").append(name);
  }
  std::error_code error;
  if (std::ofstream(temporary) << text << std::flush) {
    fs::rename(temporary, path, error);
    if (!error) {
      return Done{};
    }
  }
  const Error failed = failure("note of what was checked");
  fs::remove(temporary, error);
  return failed;
}

}  // namespace audiogen
