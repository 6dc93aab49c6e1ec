#include "api/agent_api.hpp"

#include <array>
#include <utility>

#include "api/json_fields.hpp"
#include "api/json_words.hpp"

namespace compilecache::api {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(LoadRequest, cache, waited_ms, waited_for_place_ms,
                                                cpu)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(LoadAnswer, decision, reason, retry_after_ms, match,
                                                archive, manifest_digest, generation,
                                                compressed_bytes, plain_bytes, budget_ms, key,
                                                gpu_product, rank_directories)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(LoadedReport, cache, outcome, reason, message,
                                                archive, manifest_digest, match, source,
                                                corrupt_digest, generation, milliseconds, bytes,
                                                files, waited_ms, asked_ms, waited_for, cpu)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(SaveRequest, cache, attempt, have_digest,
                                                corrupt_digest, missing_digest, loaded_digest,
                                                new_files, new_bytes, refresh, final_save, asked,
                                                cpu)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(SaveAnswer, decision, reason, retry_after_ms, id,
                                                fence, lock_timeout_ms, archive, key, gpu_product,
                                                generation, parent_digest, condemned)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(RenewRequest, fence)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(CommitRequest, fence, loaded_digest, parent_digest,
                                                manifest_digest, blobs, compressed_bytes,
                                                plain_bytes, files, layers, compile_seconds,
                                                complete, still_ms, notices_within_ms, left_out,
                                                cpu)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(CommitAnswer, manifest_digest, generation, saved_at)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(EffectReport, cache, effect, counted_effect, reason,
                                                final_report, compiling, loaded_entries,
                                                read_entries, new_entries, compile_seconds,
                                                new_names, differing, save_outcome, save_reason,
                                                save_message, unreadable_files, unreadable_owner,
                                                rank_directories)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(StoredBlob, digest, size)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(FoundSignature, bundle, payload, signature)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(FoundArchive, key, manifest_digest, generation,
                                                saved_at, blobs, compressed_bytes, plain_bytes,
                                                files, layers, signatures)

namespace {

// An inventory in JSON: flat, as 0.1 and 0.2 read and write it without knowing `listed`.
struct FlatInventory {
  bool listed = false;
  std::vector<StoredBlob> inventory;
  std::vector<std::string> kept, unread;
  std::string after, up_to;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(FlatInventory, listed, inventory, kept, unread,
                                                after, up_to)

std::optional<Inventory> read_inventory(const nlohmann::json& from) {
  auto flat = from.get<FlatInventory>();
  // The first page of 0.2 is empty where listing failed, a later one only where it did not.
  const bool listed =
      from.contains("listed") ? flat.listed : !flat.inventory.empty() || !flat.after.empty();
  if (!listed) return std::nullopt;
  return Inventory{std::move(flat.inventory), std::move(flat.kept), std::move(flat.unread),
                   std::move(flat.after), std::move(flat.up_to)};
}

}  // namespace

#define COMPILECACHE_SWEEP_FIELDS                                                            \
  cache, phase, found, copied_from, copied_archives, copy_left_out, copy_error, freed_bytes, \
      removed_blobs, removed_incomplete, corrupt, verified, sweep_error, storage_error,      \
      storage_trouble

void to_json(nlohmann::json& nlohmann_json_j, const SweepRequest& nlohmann_json_t) {
  FlatInventory flat;
  if (const auto& told = nlohmann_json_t.inventory)
    flat = {true, told->blobs, told->kept, told->unread, told->after, told->up_to};
  nlohmann_json_j = std::move(flat);
  NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(NLOHMANN_JSON_TO, COMPILECACHE_SWEEP_FIELDS))
}

void from_json(const nlohmann::json& nlohmann_json_j, SweepRequest& nlohmann_json_t) {
  const SweepRequest nlohmann_json_default_obj;
  NLOHMANN_JSON_EXPAND(
      NLOHMANN_JSON_PASTE(NLOHMANN_JSON_FROM_WITH_DEFAULT, COMPILECACHE_SWEEP_FIELDS))
  nlohmann_json_t.inventory = read_inventory(nlohmann_json_j);
}
#undef COMPILECACHE_SWEEP_FIELDS

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(SweepArchive, name, key, manifest_digest,
                                                generation, saved_at)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(SweepAnswer, archives, deletable, check, distrusted,
                                                incomplete_timeout_ms, taken)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(RegistryTokenRequest, push, source)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(RegistryToken, token, expires_seconds, push, reason)

namespace {

// How the agent API says each kind of failure.
constexpr std::array<std::pair<ErrorCode, int>, 14> kStatuses{{{ErrorCode::kInvalid, 400},
                                                               {ErrorCode::kUnauthorized, 401},
                                                               {ErrorCode::kForbidden, 403},
                                                               {ErrorCode::kNotFound, 404},
                                                               {ErrorCode::kConflict, 409},
                                                               {ErrorCode::kExpired, 410},
                                                               {ErrorCode::kTooLarge, 413},
                                                               {ErrorCode::kThrottled, 429},
                                                               {ErrorCode::kUnavailable, 503},
                                                               {ErrorCode::kTimeout, 504},
                                                               {ErrorCode::kCorrupt, 422},
                                                               {ErrorCode::kIo, 500},
                                                               {ErrorCode::kCancelled, 500},
                                                               {ErrorCode::kInternal, 500}}};

ErrorCode code_of(int status) {
  for (const auto& [code, number] : kStatuses) {
    if (number == status) return code;
  }
  return ErrorCode::kInternal;
}

}  // namespace

template <typename Message>
Result<Message> parse(const std::string& text) {
  const std::string name(message_name<Message>());
  auto object = parse_json(text, "a " + name);
  if (!object) return unexpected(object.error());
  try {
    return object->get<Message>();
  } catch (const nlohmann::json::exception& error) {
    return fail(ErrorCode::kInvalid, "reading a " + name + ": " + error.what());
  }
}

template <typename Message>
std::string dump(const Message& message) {
  return nlohmann::json(message).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

template <typename Message>
constexpr std::string_view kMessageName;

template <typename Message>
std::string_view message_name() {
  return kMessageName<Message>;
}

#define COMPILECACHE_MESSAGE(Message)                          \
  template <>                                                  \
  constexpr std::string_view kMessageName<Message> = #Message; \
  template std::string_view message_name<Message>();           \
  template Result<Message> parse<Message>(const std::string&); \
  template std::string dump<Message>(const Message&);

COMPILECACHE_MESSAGE(LoadRequest)
COMPILECACHE_MESSAGE(LoadAnswer)
COMPILECACHE_MESSAGE(LoadedReport)
COMPILECACHE_MESSAGE(SaveRequest)
COMPILECACHE_MESSAGE(SaveAnswer)
COMPILECACHE_MESSAGE(RenewRequest)
COMPILECACHE_MESSAGE(CommitRequest)
COMPILECACHE_MESSAGE(CommitAnswer)
COMPILECACHE_MESSAGE(EffectReport)
COMPILECACHE_MESSAGE(SweepRequest)
COMPILECACHE_MESSAGE(SweepAnswer)
COMPILECACHE_MESSAGE(RegistryTokenRequest)
COMPILECACHE_MESSAGE(RegistryToken)
#undef COMPILECACHE_MESSAGE

std::string error_body(const Error& error) {
  const nlohmann::json body{
      {"error", {{"code", to_string(error.code)}, {"message", error.message}}}};
  return body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Error error_of(int status, const std::string& body) {
  const auto object = nlohmann::json::parse(body, nullptr, false);
  const std::string message = field<std::string>(child(object, "error"), "message",
                                                 "the operator answered " + std::to_string(status));
  return Error{code_of(status), message};
}

int http_status(ErrorCode code) {
  for (const auto& [known, status] : kStatuses) {
    if (known == code) return status;
  }
  return 500;
}

}  // namespace compilecache::api
