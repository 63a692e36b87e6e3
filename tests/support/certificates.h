// Certificates of a test's own authority, made by openssl: real ones for real servers.
#pragma once

#include <string>

namespace audiogen::test {

class Certificates {
 public:
  // An authority in a new folder, which is deleted at the end.
  Certificates();
  ~Certificates();
  Certificates(const Certificates&) = delete;
  Certificates& operator=(const Certificates&) = delete;

  // PEM files: the authority that issue() signs with, and one that signed nothing.
  std::string ca() const { return folder_ + "/ca.pem"; }
  std::string other_ca() const { return folder_ + "/other_ca.pem"; }

  // Writes `path`.pem and `path`.key, for the DNS name `host`. `days` less than 0: has ended.
  void issue(const std::string& path, const std::string& host, int days = 2) const;

  // Puts what a server of ./dev needs to speak TLS, and nothing else, into its folder.
  void give_to_server(const std::string& folder,
                      const std::string& host = "localhost",
                      int days = 2) const;

  // A certificate for a client, and its key.
  std::string client_cert() const { return folder_ + "/client.pem"; }
  std::string client_key() const { return folder_ + "/client.key"; }

 private:
  std::string folder_;
};

}  // namespace audiogen::test
