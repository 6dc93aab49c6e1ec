#include "agent/supervise_process.hpp"

#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

namespace compilecache::agent {
namespace {

using std::chrono::milliseconds;

constexpr int kNotExecuted = 127;

}  // namespace

milliseconds monotonic_now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return std::chrono::seconds(time.tv_sec) + milliseconds(time.tv_nsec / 1'000'000);
}

LogLine::LogLine(std::string_view level) { time() << " " << level << " "; }

LogLine& LogLine::operator<<(std::string_view text) {
  const size_t room = sizeof(text_) - 1 - length_;  // one for the end of the line
  const size_t count = text.size() < room ? text.size() : room;
  std::memcpy(text_ + length_, text.data(), count);
  length_ += count;
  return *this;
}

void LogLine::write() {
  text_[length_++] = '\n';
  pollfd ready{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&ready, 1, 0) != 1 || (ready.revents & POLLOUT) == 0) return;
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text_, length_);
}

LogLine& LogLine::digits(int64_t number, int least) {
  char reversed[20];
  int count = 0;
  for (; number > 0 || count < least; number /= 10) {
    reversed[count++] = static_cast<char>('0' + number % 10);
  }
  while (count > 0) *this << std::string_view(&reversed[--count], 1);
  return *this;
}

// gmtime() reads the time zone's file.
LogLine& LogLine::time() {
  using namespace std::chrono;
  timespec since{};
  ::clock_gettime(CLOCK_REALTIME, &since);
  const sys_seconds time{seconds(since.tv_sec)};
  const auto day = floor<days>(time);
  const year_month_day date(day);
  const hh_mm_ss clock(time - day);
  digits(static_cast<int>(date.year()), 4) << "-";
  digits(static_cast<unsigned>(date.month()), 2) << "-";
  digits(static_cast<unsigned>(date.day()), 2) << "T";
  digits(clock.hours().count(), 2) << ":";
  digits(clock.minutes().count(), 2) << ":";
  digits(clock.seconds().count(), 2) << ".";
  return digits(since.tv_nsec / 1'000'000, 3) << "Z";
}

Signals::Signals() {
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  ::sigemptyset(&wanted_);
  for (const int number : {SIGTERM, SIGINT, SIGCHLD}) ::sigaddset(&wanted_, number);
  ::sigemptyset(&blocked_in_saver_);
  for (const int number : {SIGTERM, SIGINT}) ::sigaddset(&blocked_in_saver_, number);
}

void Signals::set_for_loader() {
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

int Signals::next(milliseconds time) const {
  const timespec limit{time.count() / 1000, time.count() % 1000 * 1'000'000};
  const int number = time < milliseconds(0) ? ::sigwaitinfo(&wanted_, nullptr)
                                            : ::sigtimedwait(&wanted_, nullptr, &limit);
  return number > 0 ? number : 0;
}

void die_with(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(kNotExecuted);  // it has ended already
}

void become(char* const* command) {
  ::execvp(command[0], command);
  (LogLine("ERROR") << "cannot run " << command[0] << ": " << ::strerrordesc_np(errno)).write();
  ::_exit(kNotExecuted);
}

}  // namespace compilecache::agent
