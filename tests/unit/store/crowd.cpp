#include "crowd.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <set>

#include "archive/fs.hpp"

namespace compilecache::archive::test {
namespace {

using Json = nlohmann::json;

double now_seconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

bool alive(int process) { return process != 0 && (::kill(process, 0) == 0 || errno != ESRCH); }

CrowdHead head_of(const Json& archive) {
  return {archive["manifest"], archive["blobs"], archive["bytes"], archive["generation"],
          archive["versions"]};
}

Json new_archive() {
  return {
      {"manifest", ""}, {"blobs", Json::array()}, {"previous", Json::array()},
      {"bytes", 0},     {"generation", 0},        {"versions", std::vector<int>(kCrowdSlots, 0)},
      {"holder", 0}};
}

std::set<std::string> referenced_by(const Json& truth) {
  std::set<std::string> digests;
  for (const Json& archive : truth["archives"]) {
    for (const char* which : {"blobs", "previous"}) {
      for (const std::string digest : archive[which]) digests.insert(digest);
    }
  }
  return digests;
}

}  // namespace

FileContent crowd_content(int slot, int version) {
  const auto kind = static_cast<uint64_t>(slot % 24 * 5 + version % 5);
  return {noise(200 + kind * 7919 % 20'000, kind), slot % 4 == 0};
}

std::string crowd_path(int slot) { return std::to_string(slot / 16) + "/f" + std::to_string(slot); }

Tree CrowdHead::tree() const {
  Tree tree;
  for (int slot = 0; slot < kCrowdSlots; ++slot) {
    if (versions[slot] > 0) tree[crowd_path(slot)] = crowd_content(slot, versions[slot]);
  }
  return tree;
}

CrowdLedger::CrowdLedger(std::string directory) : directory_(std::move(directory)) {
  std::filesystem::create_directories(directory_);
  Json truth = {{"archives", Json::array()},
                {"count", 1},
                {"sweeper", 0},
                {"listed", Json::object()},
                {"handed", Json::object()}};
  for (int i = 0; i < kCrowdArchives; ++i) truth["archives"].push_back(new_archive());
  write_file(directory_ + "/truth", truth.dump());
}

// When a process is killed, its lock becomes free, and a file that it was writing is never renamed.
void CrowdLedger::locked(const std::function<bool(Json&)>& change) {
  const Fd lock(::open((directory_ + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  while (::flock(lock.get(), LOCK_EX) != 0) {
  }
  Json truth = Json::parse(read_file(directory_ + "/truth"));
  if (!change(truth)) return;
  write_file(directory_ + "/truth.new", truth.dump());
  std::filesystem::rename(directory_ + "/truth.new", directory_ + "/truth");
}

void CrowdLedger::undisturbed(const std::function<void()>& action) {
  locked([&](Json&) {
    action();
    return false;
  });
}

CrowdHead CrowdLedger::head(int archive) {
  CrowdHead head;
  locked([&](Json& truth) {
    head = head_of(truth["archives"][archive]);
    head.began = truth["count"];
    return false;
  });
  return head;
}

bool CrowdLedger::take_save_lock(int archive) {
  bool taken = false;
  locked([&](Json& truth) {
    Json& holder = truth["archives"][archive]["holder"];
    if (alive(holder)) return false;
    holder = ::getpid();
    return taken = true;
  });
  return taken;
}

void CrowdLedger::leave_save_lock(int archive) {
  locked([&](Json& truth) {
    Json& holder = truth["archives"][archive]["holder"];
    if (holder != ::getpid()) return false;
    holder = 0;
    return true;
  });
}

CrowdLedger::Commit CrowdLedger::commit(int archive, const CrowdHead& head, const CrowdHead& next) {
  Commit result = Commit::kConflict;
  locked([&](Json& truth) {
    Json& now = truth["archives"][archive];
    if (now["manifest"] != head.manifest) return false;
    result = Commit::kRefused;
    for (const std::string& blob : next.blobs) {
      const auto handed = truth["handed"].find(blob);
      // 0: a sweep may be deleting the blob now. Otherwise the count at which the sweep ended: a
      // blob that a save found before that may be deleted.
      if (handed != truth["handed"].end() && (*handed == 0 || *handed > head.began)) return false;
    }
    now["previous"] = now["blobs"];
    now["manifest"] = next.manifest;
    now["blobs"] = next.blobs;
    now["bytes"] = next.manifest_bytes;
    now["generation"] = head.generation + 1;
    now["versions"] = next.versions;
    result = Commit::kDone;
    return true;
  });
  return result;
}

bool CrowdLedger::may_be_gone(int archive, const std::string& manifest) {
  bool may = false;
  locked([&](Json& truth) {
    const auto handed = truth["handed"].find(manifest);
    const auto& previous = truth["archives"][archive]["previous"];
    may = truth["archives"][archive]["manifest"] != manifest &&
          std::find(previous.begin(), previous.end(), manifest) == previous.end() &&
          handed != truth["handed"].end();
    return false;
  });
  return may;
}

CrowdLedger::Sweep CrowdLedger::begin_sweep(double grace_seconds) {
  Sweep sweep;
  locked([&](Json& truth) {
    if (alive(truth["sweeper"])) return false;
    truth["sweeper"] = ::getpid();
    const uint64_t count = truth["count"].get<uint64_t>() + 1;
    truth["count"] = count;
    for (Json& ended : truth["handed"]) {
      if (ended == 0) ended = count;  // the sweep was killed
    }
    const auto live = referenced_by(truth);
    for (const auto& [digest, since] : truth["listed"].items()) {
      if (live.contains(digest) || now_seconds() - since.get<double>() < grace_seconds) continue;
      sweep.deletable.push_back(digest);
      truth["handed"][digest] = 0;
    }
    for (const Json& archive : truth["archives"]) sweep.heads.push_back(head_of(archive));
    sweep.granted = true;
    return true;
  });
  return sweep;
}

void CrowdLedger::end_sweep(const std::vector<std::string>& inventory) {
  locked([&](Json& truth) {
    const uint64_t count = truth["count"].get<uint64_t>() + 1;
    truth["count"] = count;
    truth["sweeper"] = 0;
    Json listed = Json::object();
    const auto live = referenced_by(truth);
    for (const std::string& digest : inventory) {
      if (live.contains(digest)) continue;
      const bool handed = truth["handed"].contains(digest) && truth["handed"][digest] == 0;
      const bool known = !handed && truth["listed"].contains(digest);
      listed[digest] = known ? truth["listed"][digest].get<double>() : now_seconds();
    }
    truth["listed"] = listed;
    for (Json& ended : truth["handed"]) {
      if (ended == 0) ended = count;
    }
    return true;
  });
}

std::vector<std::string> CrowdLedger::referenced() {
  std::vector<std::string> digests;
  locked([&](Json& truth) {
    const auto live = referenced_by(truth);
    digests.assign(live.begin(), live.end());
    return false;
  });
  return digests;
}

}  // namespace compilecache::archive::test
