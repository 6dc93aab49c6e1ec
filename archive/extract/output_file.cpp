#include "archive/extract/output_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>

#include "archive/fs.hpp"

namespace compilecache::archive {
namespace {

constexpr size_t kCopyBytes = 256U << 10;

timespec time_of(int64_t nanoseconds) {
  constexpr int64_t kSecond = 1'000'000'000;
  const int64_t rest = (nanoseconds % kSecond + kSecond) % kSecond;
  return {(nanoseconds - rest) / kSecond, rest};
}

Status set_attributes(int fd, const OutputFile::Target& target) {
  if (::fchmod(fd, target.executable ? 0777 : 0666) != 0)
    return unexpected(local_error("chmod of " + target.place.path(), errno));
  // The access time is old, so that the first read changes it even if the volume is mounted with
  // relatime. By the modification time build tools recognise what they built: ninja records it to
  // the nanosecond.
  const timespec modified =
      target.modified_ns ? time_of(*target.modified_ns) : timespec{0, UTIME_OMIT};
  const timespec times[2] = {{1, 0}, modified};
  if (::futimens(fd, times) != 0)
    return unexpected(local_error("setting the times of " + target.place.path(), errno));
  return {};
}

}  // namespace

Status OutputFile::take(std::span<const uint8_t> bytes) {
  received_ += bytes.size();
  const bool last = received_ == entry_.size;
  if (last) {
    if (auto same = check_hash(); !same) return same;
  }
  if (targets_.empty()) return {};
  if (auto written = write(bytes); !written) return written;
  return last ? finish() : Status{};
}

Status OutputFile::check_hash() {
  if (hash_.finish() == entry_.sha256) return {};
  return fail(ErrorCode::kCorrupt,
              "the content of " + entry_.path + " is not what the config lists");
}

Status OutputFile::write(std::span<const uint8_t> bytes) {
  const Place& place = targets_.front().place;
  if (!fd_.valid()) {
    auto created = destination_->create(place);
    if (!created) return unexpected(created.error());
    fd_ = std::move(*created);
  }
  return write_all(fd_.get(), bytes, place.path());
}

Status OutputFile::finish() {
  for (size_t i = 1; i < targets_.size(); ++i) {
    if (auto copied = copy_to(targets_[i]); !copied) return copied;
  }
  auto set = set_attributes(fd_.get(), targets_.front());
  fd_.reset();
  return set;
}

Status OutputFile::copy_to(const Target& target) {
  // There may be thousands of copies, and for an empty content no other check is made.
  if (auto fine = session_.check_anywhere(); !fine) return fine;
  auto created = destination_->create(target.place);
  if (!created) return unexpected(created.error());
  std::vector<uint8_t> chunk(std::min<uint64_t>(entry_.size, kCopyBytes));
  for (uint64_t done = 0; done < entry_.size;) {
    if (auto fine = session_.check_anywhere(); !fine) return fine;
    auto count = pread_full(fd_.get(), chunk, done, targets_.front().place.path());
    if (!count) return unexpected(count.error());
    if (*count == 0) return fail(ErrorCode::kIo, "copying to " + target.place.path());
    if (auto written =
            write_all(created->get(), std::span(chunk).first(*count), target.place.path());
        !written)
      return written;
    done += *count;
  }
  return set_attributes(created->get(), target);
}

}  // namespace compilecache::archive
