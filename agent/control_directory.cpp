#include "agent/control_directory.hpp"

#include <nlohmann/json.hpp>

#include "agent/files.hpp"
#include "base/time_format.hpp"

namespace compilecache::agent {
namespace {

using nlohmann::json;

json status_json(const LoadStatus& status) {
  json object{{"outcome", api::to_string(status.outcome)},
              {"reason", status.reason},
              {"message", status.message},
              {"source", api::to_string(status.source)},
              {"match", api::to_string(status.match)},
              {"archive", status.archive},
              {"manifestDigest", status.manifest_digest},
              {"generation", status.generation},
              {"gpuProduct", status.gpu_product},
              {"key", status.key},
              {"milliseconds", status.milliseconds},
              {"bytes", status.bytes},
              {"files", status.files},
              {"waitedMilliseconds", status.waited_ms},
              {"waitedFor", status.waited_for},
              {"askedMilliseconds", status.asked_ms},
              {"readsVisible", status.reads_visible},
              {"reported", status.reported},
              {"bootId", status.boot_id}};
  if (!status.host_cpu.empty()) object["hostCPU"] = status.host_cpu;
  if (!status.archive_cpu.empty()) object["archiveCPU"] = status.archive_cpu;
  if (!status.corrupt_digest.empty()) object["corruptDigest"] = status.corrupt_digest;
  if (status.loaded_at != WallTime{}) object["loadedAt"] = format_micro_time(status.loaded_at);
  return object;
}

LoadStatus status_of(const json& object) {
  LoadStatus status;
  status.outcome =
      api::parse_word<api::Outcome>(object.value("outcome", "")).value_or(api::Outcome::kError);
  status.reason = object.value("reason", "");
  status.message = object.value("message", "");
  status.source = api::parse_word<api::LoadSource>(object.value("source", ""));
  status.match = api::parse_word<api::Match>(object.value("match", "")).value_or(api::Match::kNone);
  status.archive = object.value("archive", "");
  status.manifest_digest = object.value("manifestDigest", "");
  status.generation = object.value("generation", int64_t{0});
  status.gpu_product = object.value("gpuProduct", "");
  status.key = object.value("key", api::ArchiveKey{});
  status.host_cpu = object.value("hostCPU", "");
  status.archive_cpu = object.value("archiveCPU", "");
  status.corrupt_digest = object.value("corruptDigest", "");
  status.milliseconds = object.value("milliseconds", int64_t{0});
  status.bytes = object.value("bytes", int64_t{0});
  status.files = object.value("files", int64_t{0});
  status.waited_ms = object.value("waitedMilliseconds", int64_t{0});
  status.waited_for = object.value("waitedFor", "");
  status.asked_ms = object.value("askedMilliseconds", int64_t{0});
  status.reads_visible = object.value("readsVisible", false);
  status.reported = object.value("reported", false);
  status.boot_id = object.value("bootId", "");
  status.loaded_at = parse_time(object.value("loadedAt", "")).value_or(WallTime{});
  return status;
}

// Messages name files, and those need not be UTF-8.
std::string text_of(const json& object) {
  return object.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

Error unreadable(const std::string& path, const std::string& why) {
  return Error{ErrorCode::kInvalid, "reading " + path + ": " + why};
}

}  // namespace

Status ControlDirectory::write_status(const LoadStatus& status) const {
  return write_file(status_file(), text_of(status_json(status)));
}

Result<LoadStatus> ControlDirectory::read_status() const {
  const auto text = read_app_file(status_file());
  if (!text) return unexpected(text.error());
  try {
    return status_of(json::parse(*text));
  } catch (const json::exception& error) {
    return unexpected(unreadable(status_file(), error.what()));
  }
}

Status ControlDirectory::write_loaded(const std::string& paths) const {
  return write_file(loaded_file(), paths);
}

Result<frameworks::PathSet> ControlDirectory::read_loaded(const std::string& root) const {
  const auto text = read_app_file(loaded_file());
  if (!text) return unexpected(text.error());
  frameworks::PathSet paths;
  const std::string prefix = root + "/";
  for (size_t from = 0; from < text->size();) {
    const size_t end = text->find('\n', from);
    if (end == std::string::npos) break;
    const std::string_view line = std::string_view(*text).substr(from, end - from);
    if (line.starts_with(prefix)) paths.emplace(line.substr(prefix.size()));
    from = end + 1;
  }
  return paths;
}

Status ControlDirectory::write_saver_state(const SaverState& state) const {
  json object{{"head", state.head},
              {"saves", state.saves},
              {"compileSeconds", state.compile_seconds},
              {"loadReported", state.load_reported}};
  if (state.saved_at) object["savedAt"] = format_micro_time(*state.saved_at);
  return write_file(path_ + "/saver.json", text_of(object));
}

SaverState ControlDirectory::read_saver_state() const {
  SaverState state;
  const auto text = read_app_file(path_ + "/saver.json");
  if (!text) return state;
  const json object = json::parse(*text, nullptr, false);
  if (!object.is_object()) return state;
  try {
    state.head = object.value("head", "");
    state.saves = object.value("saves", int64_t{0});
    state.compile_seconds = object.value("compileSeconds", 0.0);
    state.load_reported = object.value("loadReported", false);
    if (const auto time = parse_time(object.value("savedAt", ""))) state.saved_at = *time;
  } catch (const json::exception&) {
    return SaverState{};
  }
  return state;
}

}  // namespace compilecache::agent
