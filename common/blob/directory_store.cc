// Audio in segments: files of many blobs, appended and flushed by the batch. A file for each blob
// was measured at 45-110 us of CPU (20 KB, ext4), most of it for the inode, and at far more for a
// minute after many files had been deleted: ext4 avoids their inodes. And every file system has
// fewer inodes than a service of some years has tasks.
//
// A blob is a header of 128 bytes and its bytes, from a multiple of the block size on, so that
// removing it frees exactly its blocks. The key says where it lies; the header proves that the key
// is right: its name has 130 random bits. Nobody hears of a key before its settlement, so nobody
// meets half a blob. After a crash nobody appends to a segment any more: there is nothing to
// repair.
#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/blob/blob_key.h"
#include "common/blob/blob_store.h"

namespace audiogen {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kBlock = 4096;  // Of file systems that free parts of a file.
constexpr std::size_t kSlot = 6;       // Characters of a segment's name.
constexpr std::size_t kTime = 10;      // Characters that carry its milliseconds.
constexpr std::size_t kRandom = kSegmentName - kTime;
constexpr std::size_t kIdLength = 26;
constexpr auto kSlotLength = std::chrono::milliseconds(1 << 20);
constexpr const char* kChecked = "/checked";  // Holds the name of the last slot checked.

struct Header {
  std::array<char, 8> magic{'A', 'G', 'b', 'l', 'o', 'b', '1', '\n'};
  std::int64_t written_at = 0;  // Seconds since the epoch.
  std::uint64_t length = 0;
  std::array<char, 104> name{};  // Zeros follow it.
};
static_assert(sizeof(Header) == 128 && std::has_unique_object_representations_v<Header> &&
              std::endian::native == std::endian::little);
constexpr auto kHeader = static_cast<std::int64_t>(sizeof(Header));

// What a blob of so many bytes takes of its segment.
std::int64_t space_of(std::uint64_t length) {
  return (kHeader + static_cast<std::int64_t>(length) + kBlock - 1) / kBlock * kBlock;
}

// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

Error failure(const char* what) {
  return Error{std::string("blob store: ") + what + ": " + std::generic_category().message(errno)};
}

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

bool flush_folder(const std::string& path) {
  const Descriptor open(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return open.get() >= 0 && ::fsync(open.get()) == 0;
}

// The blob at `at`, or nullopt when none begins there.
std::optional<Header> header_at(int fd, std::int64_t at) {
  Header header;
  const bool read = ::pread(fd, &header, sizeof header, at) == kHeader;
  return read && header.magic == Header{}.magic ? std::optional(header) : std::nullopt;
}

std::string_view name_in(const Header& header) {
  const std::string_view all(header.name.data(), header.name.size());
  return all.substr(0, all.find('\0'));
}

// The header of the blob at this very place, if it is there.
std::optional<Header> find_blob(int fd, const BlobPlace& place) {
  const auto header = header_at(fd, place.offset);
  return header && header->length == place.length && name_in(*header) == place.name ? header
                                                                                    : std::nullopt;
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

// Sorted names of what is in `folder`; none when it cannot be read.
std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Before segments every blob was a file: "01m7z/5s/<name>".
std::string old_path(const std::string& folder, std::string_view name) {
  std::string path = folder;
  path.append("/").append(name.substr(0, 5)).append("/").append(name.substr(5, 2));
  return path.append("/").append(name);
}

// Removes `path`, and of the `folders` above it those that this leaves empty.
Result<Done> remove_file(std::string path, int folders) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return failure("unlink");
  }
  do {
    path.resize(path.rfind('/'));  // Fails, harmlessly, while there is something in it.
  } while (::rmdir(path.c_str()) == 0 && --folders > 0);
  return Done{};
}

}  // namespace

DirectoryStore::DirectoryStore(std::string folder, DirectoryOptions options)
    : folder_(std::move(folder)), options_(std::move(options)) {}

DirectoryStore::~DirectoryStore() {
  leave_segment();
}

Result<std::unique_ptr<DirectoryStore>> DirectoryStore::open(const std::string& folder,
                                                             DirectoryOptions options) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error || !fs::is_directory(folder, error)) {
    return Error{"BLOB_URL: cannot make the folder " + folder + ": " + error.message()};
  }
  if (!options.clock) {
    options.clock = [] {
      return std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now());
    };
  }
  return std::unique_ptr<DirectoryStore>(
      new DirectoryStore(folder, std::move(options)));  // NOLINT(cppcoreguidelines-owning-memory)
}

std::string DirectoryStore::path_of(std::string_view segment) const {
  std::string path = folder_;
  return path.append("/").append(segment.substr(0, kSlot)).append("/").append(segment);
}

PutShape DirectoryStore::put_shape() const {
  return {.threads = 1, .batch_max = 128};  // A second one would only make batches smaller.
}

std::vector<Result<std::string>> DirectoryStore::put(std::span<const NewBlob> blobs) {
  const std::scoped_lock lock(mutex_);
  if (segment_.fd < 0 || segment_.end >= options_.segment_max ||
      !segment_.name.starts_with(slot_of(options_.clock()))) {
    if (const auto begun = begin_segment(); !begun) {
      return std::vector<Result<std::string>>(blobs.size(), begun.error());
    }
  }
  std::vector<Result<std::string>> keys;
  keys.reserve(blobs.size());
  for (const NewBlob& blob : blobs) {
    keys.push_back(append(blob));
  }
  AG_CRASH_POINT("blob.written");
  if (::fdatasync(segment_.fd) != 0) {
    const Error error = failure("flush");
    leave_segment();  // What the kernel still has of it is anybody's guess.
    std::fill(keys.begin(), keys.end(), error);
  }
  return keys;
}

Result<std::string> DirectoryStore::append(const NewBlob& blob) {
  const auto name = parse_blob_key(blob.name);
  AG_CHECK(name && name->segment.empty());
  Header header;
  header.written_at =
      std::chrono::floor<std::chrono::seconds>(options_.clock()).time_since_epoch().count();
  header.length = blob.bytes.size();
  std::copy(blob.name.begin(), blob.name.end(), header.name.begin());
  static constexpr std::array<char, kBlock> kZeros{};
  const std::int64_t space = space_of(blob.bytes.size());
  const auto padding = static_cast<std::size_t>(space) - sizeof header - blob.bytes.size();
  // Nothing is written to through these.
  std::array<iovec, 3> parts{{{&header, sizeof header},
                              {const_cast<char*>(blob.bytes.data()), blob.bytes.size()},
                              {const_cast<char*>(kZeros.data()), padding}}};
  if (!write_all(segment_.fd, parts, segment_.end)) {
    Error error = failure("write");
    if (::ftruncate(segment_.fd, segment_.end) != 0) {
      error.message += ", and it takes up space until the next one";
    }
    return error;
  }
  std::string key = make_blob_key({.segment = segment_.name,
                                   .offset = segment_.end,
                                   .length = blob.bytes.size(),
                                   .name = blob.name});
  segment_.end += space;
  return key;
}

Result<Done> DirectoryStore::begin_segment() {
  leave_segment();
  std::string name = encode_base32(first_uuid_at(options_.clock())).substr(0, kTime);
  name += random_base32(kRandom);
  const std::string path = path_of(name);
  const std::string folder = path.substr(0, path.rfind('/'));
  if (::mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) {
    return failure("mkdir");
  }
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (file.get() < 0) {
    return failure("open");
  }
  if (!flush_folder(folder) || !flush_folder(folder_)) {
    return failure("flush");
  }
  segment_ = {.fd = file.release(), .name = std::move(name), .end = 0};
  return Done{};
}

void DirectoryStore::leave_segment() {
  if (segment_.fd >= 0) {
    ::close(segment_.fd);
  }
  segment_ = {};
}

Result<Done> DirectoryStore::remove(std::string_view key) {
  const auto place = parse_blob_key(key);
  if (!place) {
    return Done{};
  }
  if (place->segment.empty()) {
    return remove_file(old_path(folder_, key), 2);
  }
  const std::string path = path_of(place->segment);
  const Descriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (file.get() < 0) {
    return errno == ENOENT ? Result<Done>(Done{}) : failure("open");
  }
  if (!find_blob(file.get(), *place)) {
    return Done{};
  }
  // Without its header it is gone, even where no part of a file can be freed.
  constexpr int kFree = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  const Header none{.magic = {}};
  if (::pwrite(file.get(), &none, sizeof none, place->offset) != kHeader ||
      (::fallocate(file.get(), kFree, place->offset, space_of(place->length)) != 0 &&
       errno != EOPNOTSUPP)) {
    return failure("free");
  }
  const bool empty = ::lseek(file.get(), 0, SEEK_DATA) < 0 && errno == ENXIO;
  if (empty && place->segment < slot_of(options_.clock() - kSlotLength)) {
    return remove_file(path, 1);
  }
  return Done{};
}

std::optional<OpenBlob> DirectoryStore::read(std::string_view key) const {
  const auto place = parse_blob_key(key);
  if (!place) {
    return std::nullopt;
  }
  const bool alone = place->segment.empty();
  const std::string path = alone ? old_path(folder_, key) : path_of(place->segment);
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat info {};
  if (file.get() < 0 || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return std::nullopt;
  }
  if (alone) {
    return OpenBlob{.fd = file.release(), .size = info.st_size, .modified = info.st_mtim.tv_sec};
  }
  const auto header = find_blob(file.get(), *place);
  if (!header || place->offset + space_of(place->length) > info.st_size) {
    return std::nullopt;
  }
  return OpenBlob{.fd = file.release(),
                  .offset = place->offset + kHeader,
                  .size = static_cast<std::int64_t>(place->length),
                  .modified = header->written_at};
}

std::vector<BlobSlot> DirectoryStore::unchecked(Instant end, std::size_t limit) const {
  std::string from;
  std::ifstream(folder_ + kChecked) >> from;
  if (!slot_named(from)) {
    from.clear();  // No such file, or a spoilt one: from the oldest on.
  }
  const std::string to = slot_of(end);
  std::vector<BlobSlot> slots;
  for (const std::string& name : names_in(folder_)) {
    const auto slot = slot_named(name);
    if (slot && name > from && name < to && slots.size() < limit) {
      slots.push_back(*slot);
    }
  }
  return slots;
}

Result<Done> DirectoryStore::for_each(
    const BlobSlot& slot, const std::function<void(const std::string& key)>& visit) const {
  for (const std::string& segment : names_in(folder_ + '/' + slot.folder)) {
    const Descriptor file(::open(path_of(segment).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (file.get() < 0 && errno != ENOENT) {
      return failure("open");
    }
    // What was removed is a hole, and so passed over.
    for (std::int64_t at = 0; (at = ::lseek(file.get(), at, SEEK_DATA)) >= 0;) {
      const auto header = header_at(file.get(), at);
      if (!header || !is_blob_key(name_in(*header))) {
        at += kBlock;  // The rest of a batch that a crash cut off.
        continue;
      }
      visit(make_blob_key(
          {.segment = segment, .offset = at, .length = header->length, .name = name_in(*header)}));
      at += space_of(header->length);
    }
  }
  return Done{};
}

Result<Done> DirectoryStore::mark_checked(const BlobSlot& slot) {
  // Not flushed: after a power cut some slots are looked at again.
  const std::string path = folder_ + kChecked;
  const std::string temporary = path + '-' + random_base32(8);
  std::error_code error;
  if (std::ofstream(temporary) << slot.folder << std::flush) {
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
