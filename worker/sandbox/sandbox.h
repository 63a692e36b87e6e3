// Locks a process in for good: what a speech engine or a codec taken over by hostile input could
// still do is compute, read its own data files and write to descriptors that are already open.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

struct sock_filter;

namespace audiogen::sandbox {

// What one child may use.
struct Limits {
  std::uint32_t memory_mib = 256;  // address space
  std::uint32_t cpu_seconds = 10;
  std::uint32_t wall_seconds = 60;
};

// For a helper that reads files before its children do, and whose makers nobody knows: from now on
// it and its children read nothing but what is below `readable` (on a kernel without Landlock,
// every file), change no file nor its name, touch no other process, and have neither network nor
// other programs. A list of what is refused, so weaker than a Sandbox, which is a list of what is
// left. What is open or loaded stays. For a process with one thread; a Sandbox may still be
// entered. False when the kernel refuses, or has Landlock and makes no rules.
bool fence(const std::vector<std::string>& readable);

class Sandbox {
 public:
  // Compiles the list of system calls and the Landlock rules once, so that entering costs
  // microseconds. Files below `readable` stay readable; on a kernel without Landlock (before 5.13)
  // every file does, read-only. With nothing readable no file can be opened on any kernel. Nullopt
  // when the kernel has no seccomp filters, or has Landlock and makes no rules.
  static std::optional<Sandbox> prepare(const std::vector<std::string>& readable);

  Sandbox(Sandbox&& other) noexcept;
  Sandbox& operator=(Sandbox&&) = delete;
  ~Sandbox();

  // Sets `limits`, then takes away everything else; cannot be undone. For a process with one
  // thread. A forbidden system call afterwards kills the process (SIGSYS), a forbidden file is
  // EACCES. False when the kernel refuses: then exit.
  bool enter(const Limits& limits) const;

 private:
  Sandbox() = default;

  std::vector<sock_filter> filter_;
  int ruleset_ = -1;  // Landlock
};

}  // namespace audiogen::sandbox
