#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

// A program under test, as a process of its own.

namespace compilecache::bench {

class Subject {
 public:
  Subject(std::string name, uint16_t port, const std::vector<std::string>& command);
  ~Subject();  // ends it
  Subject(Subject&&) noexcept;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] uint16_t port() const { return port_; }
  // From the start of the process to the first answer with a patch; ends the program when none
  // comes within a minute.
  double wait_until_serving(const std::string& body);
  // User and system time so far.
  [[nodiscard]] double cpu_seconds() const;
  [[nodiscard]] double resident_megabytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  std::string name_;
  uint16_t port_;
};

}  // namespace compilecache::bench
