#include "agent/save/reporter.hpp"

#include "agent/pod.hpp"
#include "base/log.hpp"
#include "base/strings.hpp"

namespace compilecache::agent {
namespace {

constexpr std::chrono::seconds kPauseAfterFailure{30};

}  // namespace

void Reporter::note_save(const SaveResult& result) { save_ = result; }

void Reporter::report(const frameworks::Evidence& evidence, bool settled, bool last,
                      Patience patience) {
  const std::string effect(api::to_string(evidence.effect));
  const bool another_verdict =
      load_.loaded() && (sent_ ? sent_->effect : api::Effect::kUnused) != evidence.effect;
  if (load_.loaded() && effect != logged_effect_) {
    log_info("effect of the loaded archive",
             {{"effect", effect},
              {"loaded_entries", std::to_string(evidence.loaded_entries)},
              {"read_entries", std::to_string(evidence.read_entries)},
              {"new_entries", std::to_string(evidence.new_entries)},
              {"compiled", join(evidence.new_names, ", ")},
              {"differing", join(evidence.differing, ", ")}});
    logged_effect_ = effect;
  }
  const bool nothing_to_say = evidence == frameworks::Evidence{} && !load_.loaded();
  const bool other_numbers = !nothing_to_say && sent_ != evidence;
  const bool worth_it =
      save_ || compiling_ || another_verdict || (settled && sent_ && other_numbers);
  if (!worth_it && !(last && (load_.loaded() || sent_ || other_numbers))) return;
  const auto now = clock_.monotonic();
  if (now < not_before_ && !last) return;
  if (const auto told = coordinator_.effect(make(evidence, last), patience); !told) {
    log_warn("cannot report to the operator", {{"error", told.error().message}});
    not_before_ = now + kPauseAfterFailure;
    return;
  }
  sent_ = evidence;
  save_.reset();
  compiling_ = false;
}

api::EffectReport Reporter::make(const frameworks::Evidence& evidence, bool last) const {
  api::EffectReport report;
  report.cache = config_.cache;
  if (load_.loaded()) report.effect = evidence.effect;
  if (load_.loaded() && sent_) report.counted_effect = sent_->effect;
  if (evidence.effect == api::Effect::kUnknown) report.reason = "reads_not_visible";
  report.final_report = last;
  report.compiling = compiling_;
  report.loaded_entries = static_cast<int64_t>(evidence.loaded_entries);
  report.read_entries = static_cast<int64_t>(evidence.read_entries);
  report.new_entries = static_cast<int64_t>(evidence.new_entries);
  report.compile_seconds = evidence.compile_seconds();
  report.rank_directories = evidence.rank_directories;
  if (load_.loaded()) {
    report.new_names = evidence.new_names;
    report.differing = evidence.differing;
  }
  if (save_) {
    report.save_outcome = save_->outcome;
    report.save_reason = save_->reason;
    report.save_message = save_->message;
    report.unreadable_files = static_cast<int64_t>(save_->unreadable.count());
    report.unreadable_owner = save_->unreadable.owner();
  }
  return report;
}

bool Reporter::report_load(Patience patience) const {
  const auto told = coordinator_.loaded(loaded_report(config_.cache, load_), patience);
  if (!told) log_debug("cannot report the load yet", {{"error", told.error().message}});
  return told.has_value();
}

}  // namespace compilecache::agent
