#include "tests/support/certificates.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace audiogen::test {
namespace {

constexpr const char* kNewKey = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes ";

void openssl(const std::string& arguments) {
  const std::string command = "openssl " + arguments + " 2>/dev/null";
  if (std::system(command.c_str()) != 0) {
    throw std::runtime_error("failed: " + command);
  }
}

void make_authority(const std::string& path, const std::string& name) {
  openssl("req -x509 " + std::string(kNewKey) + "-days 2 -subj '/CN=" + name + "' -keyout '" +
          path + ".key' -out '" + path + ".pem'");
}

}  // namespace

Certificates::Certificates() {
  std::string pattern = (std::filesystem::temp_directory_path() / "certificates-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) {
    throw std::runtime_error("cannot make a folder for certificates");
  }
  folder_ = pattern;
  make_authority(folder_ + "/ca", "test authority");
  make_authority(folder_ + "/other_ca", "another authority");
  issue(folder_ + "/client", "client");
}

Certificates::~Certificates() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void Certificates::issue(const std::string& path, const std::string& host, int days) const {
  openssl("req " + std::string(kNewKey) + "-subj '/CN=" + host + "' -keyout '" + path +
          ".key' -out '" + path + ".csr'");
  std::ofstream(path + ".ext") << "subjectAltName=DNS:" << host << "\n";
  const std::string sign = "x509 -req -in '" + path + ".csr' -CA '" + ca() + "' -CAkey '" +
                           folder_ + "/ca.key' -CAcreateserial -extfile '" + path + ".ext' -out '" +
                           path + ".pem' ";
  try {
    openssl(sign + "-days " + std::to_string(days));
  } catch (const std::runtime_error&) {
    if (days >= 0) {
      throw;
    }
    // OpenSSL 3.5 takes no such number, but dates, which 3.0 does not.
    openssl(sign + "-not_before 20200101000000Z -not_after 20200102000000Z");
  }
}

void Certificates::give_to_server(const std::string& folder,
                                  const std::string& host,
                                  int days) const {
  const std::filesystem::path tls = std::filesystem::path(folder) / "tls";
  std::filesystem::create_directories(tls);
  issue(tls / "server", host, days);
  std::filesystem::copy_file(
      ca(), tls / "ca.pem", std::filesystem::copy_options::overwrite_existing);
}

}  // namespace audiogen::test
