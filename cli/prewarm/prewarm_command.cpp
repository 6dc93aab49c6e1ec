#include "cli/prewarm/prewarm_command.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <ostream>

#include "api/names.hpp"
#include "base/clock.hpp"
#include "base/printable.hpp"
#include "base/random.hpp"
#include "cli/cluster/operator_settings.hpp"
#include "cli/cluster/plain_error.hpp"
#include "cli/prewarm/prewarm_plan.hpp"
#include "cli/prewarm/prewarm_watch.hpp"
#include "cli/text/complaint.hpp"
#include "cli/text/manifest_files.hpp"
#include "kube/config.hpp"
#include "kube/cpprest_transport.hpp"
#include "kube/json.hpp"
#include "operator/cluster/cluster_view.hpp"
#include "operator/settings/settings.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kPrewarmTimeout{10};
constexpr int kPrewarmRetries = 2;
constexpr seconds kPrewarmLook{1};
// A pod whose pull fails may do better at the next try; the kubelet tries again within 20 s at
// first.
constexpr seconds kStuck{120};
// Longer than a pod's own grace period: the saver may use its last seconds.
constexpr seconds kGone{180};

// SIGINT, SIGTERM and SIGHUP as something to wait for; blocked for this thread and those it starts.
class Signals {
 public:
  Signals() {
    sigemptyset(&set_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set_, signal);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    ::signal(SIGPIPE, SIG_IGN);
  }
  // The signal that came, or 0.
  int wait(seconds time) const {
    const timespec limit{time.count(), 0};
    return std::max(0, sigtimedwait(&set_, nullptr, &limit));
  }

 private:
  sigset_t set_{};
};

struct Run {
  PrewarmTarget target;
  std::string pod;  // empty: none was made
  std::string outcome, why;
  std::string told;  // the last line of progress
  Monotonic start;
  int64_t seconds = 0;
  std::unique_ptr<PrewarmWatch> watch;

  [[nodiscard]] bool over() const { return !outcome.empty(); }
};

constexpr char kAlreadyWarm[] = "already warm", kWarmed[] = "warmed", kFailed[] = "failed",
               kInterrupted[] = "interrupted";

class Prewarm {
 public:
  Prewarm(const PrewarmOptions& options, kube::Client client, const Signals& signals,
          std::ostream& errors)
      : options_(options), client_(std::move(client)), signals_(signals), errors_(errors) {}

  Result<api::NodeLabels> labels() const {
    auto settings = options_.settings.empty() ? read_settings(client_, options_.operator_namespace)
                                              : controller::load_settings(options_.settings);
    if (!settings) return unexpected(settings.error());
    return settings->node_labels;
  }

  Status plan(const std::vector<WorkloadTemplate>& workloads, const api::NodeLabels& labels) {
    const PrewarmWish wish{options_.images, options_.products, options_.all_products};
    for (const WorkloadTemplate& workload : workloads) {
      auto plan = plan_prewarm(client_, workload, wish, labels);
      if (!plan) return unexpected(plan.error());
      for (const std::string& note : plan->notes) tell(workload.workload() + ": " + note);
      for (PrewarmTarget& target : plan->targets) {
        Run run{.target = std::move(target)};
        if (run.target.warm && !options_.force) {
          run.outcome = kAlreadyWarm;
          run.why =
              "archive generation " + std::to_string(run.target.generations[run.target.archive]);
        }
        runs_.push_back(std::move(run));
      }
    }
    return {};
  }

  // The signal that ended it, or 0.
  int run(const PrewarmPatience& patience) {
    for (Run& one : runs_) {
      if (!one.over()) start(one, patience);
    }
    while (signal_ == 0 && !all_over()) {
      for (Run& one : runs_) {
        if (!one.over()) look(one);
      }
      if (signal_ == 0 && !all_over()) signal_ = signals_.wait(kPrewarmLook);
    }
    for (Run& one : runs_) {
      if (!one.over()) end(one, kInterrupted, "by a signal");
    }
    return signal_;
  }

  [[nodiscard]] bool all_warm() const {
    return std::all_of(runs_.begin(), runs_.end(), [](const Run& one) {
      return one.outcome == kAlreadyWarm || one.outcome == kWarmed;
    });
  }

  void print(std::ostream& out) const {
    json all = json::array();
    for (const Run& one : runs_) {
      all.push_back({{"namespace", one.target.ns},
                     {"workload", one.target.workload},
                     {"cache", one.target.cache},
                     {"gpuProduct", one.target.kind.product},
                     {"archive", one.target.archive},
                     {"pod", one.pod},
                     {"outcome", one.outcome},
                     {"why", one.why},
                     {"seconds", one.seconds}});
      if (options_.output != "json") {
        out << printable(title(one) + ": " + one.outcome +
                         (one.pod.empty() ? "" : " in " + std::to_string(one.seconds) + " s") +
                         " (" + one.why + ")")
            << "\n";
      }
    }
    if (options_.output == "json") {
      out << all.dump(2, ' ', false, json::error_handler_t::replace) << "\n";
    }
  }

 private:
  static std::string title(const Run& run) {
    return run.target.ns + "/" + run.target.workload + " on " + run.target.kind.product;
  }

  void tell(const std::string& text) { errors_ << printable(text) << "\n" << std::flush; }

  [[nodiscard]] bool all_over() const {
    return std::all_of(runs_.begin(), runs_.end(), [](const Run& one) { return one.over(); });
  }

  void start(Run& run, const PrewarmPatience& patience) {
    json& pod = run.target.pod;
    const std::string name = prewarm_name(
        run.target.workload.substr(run.target.workload.find('/') + 1), random_id(system_random()));
    pod["metadata"]["name"] = name;
    // Leaves some time for its deletion.
    pod["spec"]["activeDeadlineSeconds"] =
        std::chrono::duration_cast<seconds>(patience.all + kGone).count();
    run.start = SystemClock::instance().monotonic();
    run.watch = std::make_unique<PrewarmWatch>(patience, run.start);
    run.pod = name;
    auto made = client_.create(kube::resources::kPods, pod);
    // The answer was lost, and the request sent again.
    if (!made && made.error().code == ErrorCode::kAlreadyExists) {
      made = client_.get(kube::resources::kPods, run.target.ns, name);
    }
    if (!made) {
      // An answer that was lost may have made it.
      end(run, kFailed, plain_error(made.error()).message);
    } else if (kube::string_at(*made, {"metadata", "annotations", api::kStatusAnnotation})
                   .empty()) {
      end(run, kFailed, "the pod was not injected, though it would have been a moment ago");
    } else {
      tell(title(run) + ": made pod " + run.target.ns + "/" + name);
    }
  }

  void see_archive(const Run& run, PrewarmSight& sight) const {
    const auto all =
        client_.list_all(controller::resources::kCompileCacheArchives, {.ns = run.target.ns});
    if (!all) return;
    std::vector<api::CompileCacheArchive> archives;
    for (const json& item : all->at("items")) {
      auto archive = api::parse_archive(item);
      if (archive && archive->cache == run.target.cache &&
          api::is_same_but_cpu(archive->key, run.target.kind.key)) {
        archives.push_back(std::move(*archive));
      }
    }
    sight.take_archive(std::move(archives), run.target.generations, run.pod);
  }

  PrewarmSight see(const Run& run) const {
    PrewarmSight sight;
    auto pod = client_.get(kube::resources::kPods, run.target.ns, run.pod);
    if (pod) sight.pod = std::move(*pod);
    // Whatever else went wrong is no word about the pod.
    if (!pod && pod.error().code != ErrorCode::kNotFound) sight.pod = json::object();
    see_archive(run, sight);
    const auto cache =
        client_.get(controller::resources::kCompileCaches, run.target.ns, run.target.cache);
    if (!cache) return sight;
    const auto read = api::parse_compile_cache(*cache);
    if (!read) return sight;
    for (const api::RecentPod& told : read->status.recent.list()) {
      if (told.pod == run.pod) sight.told = told;
    }
    return sight;
  }

  void look(Run& run) {
    const PrewarmNews news = run.watch->look(see(run), SystemClock::instance().monotonic());
    if (news.state == PrewarmNews::State::kWarm) {
      run.target.archive = news.archive;
      return end(run, kWarmed, news.text);
    }
    if (news.state == PrewarmNews::State::kFailed) return end(run, kFailed, news.text);
    if (news.text != run.told) tell(title(run) + ": " + news.text);
    run.told = news.text;
  }

  // The pod goes; what it compiled since its last save is saved as it ends.
  void end(Run& run, const char* outcome, const std::string& why) {
    run.outcome = outcome;
    run.why = why;
    run.seconds =
        std::chrono::duration_cast<seconds>(SystemClock::instance().monotonic() - run.start)
            .count();
    const auto removed = client_.remove(kube::resources::kPods, run.target.ns, run.pod);
    if (!removed && removed.error().code != ErrorCode::kNotFound) {
      run.why +=
          "; its pod " + run.pod + " is still there: " + plain_error(removed.error()).message;
      return;
    }
    const Monotonic limit = SystemClock::instance().monotonic() + kGone;
    while (SystemClock::instance().monotonic() < limit) {
      const auto pod = client_.get(kube::resources::kPods, run.target.ns, run.pod);
      if (!pod && pod.error().code == ErrorCode::kNotFound) return;
      // The deletion is on record, so a signal to end need not wait for it.
      if (signal_ != 0) return;
      signal_ = signals_.wait(kPrewarmLook);
    }
  }

  const PrewarmOptions& options_;
  kube::Client client_;
  const Signals& signals_;
  std::ostream& errors_;
  std::vector<Run> runs_;
  int signal_ = 0;  // that ends us
};

Result<std::vector<WorkloadTemplate>> read_workloads(const PrewarmOptions& options,
                                                     const kube::Client& client,
                                                     const std::string& ns, std::istream& in) {
  std::vector<WorkloadTemplate> workloads;
  if (options.files.empty()) {
    const auto named = workload_named(options.workload);
    if (!named) return unexpected(named.error());
    auto object = client.get(named->resource, ns, named->name);
    if (!object) {
      return unexpected(not_read(object.error(), named->kind, ns, named->name));
    }
    (*object)["apiVersion"] = named->resource.api_version();
    (*object)["kind"] = named->kind;
    auto made = workload_template(*object, ns);
    if (!made) return unexpected(made.error());
    workloads.push_back(std::move(**made));
    return workloads;
  }
  const auto files = read_files(options.files, in);
  if (!files) return unexpected(files.error());
  for (const ManifestFile& file : *files) {
    for (const Manifest& document : file.documents) {
      auto made = workload_template(json::parse(document.dump()), ns);
      if (!made) return unexpected(made.error().with(file.name));
      const bool annotated =
          *made && !kube::string_at((*made)->pod_template,
                                    {"metadata", "annotations", api::kCacheAnnotation})
                        .empty();
      if (annotated) workloads.push_back(std::move(**made));
    }
  }
  if (!workloads.empty()) return workloads;
  return fail(ErrorCode::kInvalid,
              std::string("no manifest is a workload whose pod template has the annotation ") +
                  api::kCacheAnnotation +
                  "; groups such as LeaderWorkerSets and RayClusters "
                  "cannot be warmed by one pod");
}

}  // namespace

int run_prewarm(const PrewarmOptions& options, std::istream& in, std::ostream& out,
                std::ostream& errors) {
  constexpr int kWarm = 0, kNotWarm = 1, kUnreadable = 2, kBySignal = 128;
  const auto refuse = [&](const Error& error, int status) {
    return complain(error, errors, status);
  };
  const Signals signals;
  const auto config = kube::load_config({options.kubeconfig, options.context});
  if (!config) return refuse(config.error(), kUnreadable);
  const auto transport = kube::make_transport(*config);
  if (!transport) return refuse(transport.error(), kUnreadable);
  const kube::Client client = kube::Client(*transport, {.field_manager = "kubectl-compilecache"})
                                  .with_timeout(kPrewarmTimeout, kPrewarmRetries);
  const std::string& ns = options.ns.empty() ? config->default_namespace : options.ns;
  const auto workloads = read_workloads(options, client, ns, in);
  if (!workloads) return refuse(workloads.error(), kUnreadable);
  Prewarm prewarm(options, client, signals, errors);
  const auto labels = prewarm.labels();
  if (!labels) return refuse(labels.error(), kUnreadable);
  const Status planned = prewarm.plan(*workloads, *labels);
  if (!planned) return refuse(planned.error(), kNotWarm);
  const int signal = prewarm.run({options.schedule_timeout, kStuck, options.timeout});
  prewarm.print(out);
  if (signal != 0) return kBySignal + signal;
  return prewarm.all_warm() ? kWarm : kNotWarm;
}

}  // namespace compilecache::cli
