#include "cli/enable/enable_command.hpp"

#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <utility>
#include <vector>

#include "api/names.hpp"
#include "base/printable.hpp"
#include "cli/cluster/operator_settings.hpp"
#include "cli/cluster/undo.hpp"
#include "cli/cluster/webhook_scope.hpp"
#include "cli/cluster/workload_template.hpp"
#include "cli/enable/enable_plan.hpp"
#include "cli/text/complaint.hpp"
#include "cli/text/json_at.hpp"
#include "operator/cluster/cluster_view.hpp"
#include "operator/settings/injection_settings.hpp"
#include "operator/settings/settings.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;

constexpr int kWrongUsage = 2;
const kube::Resource& caches() { return controller::resources::kCompileCaches; }

class Enable {
 public:
  Enable(const EnableOptions& options, const Cluster& cluster)
      : options_(options), client_(cluster.client), ns_(cluster.ns) {}

  Result<EnablePlan> plan() {
    if (const Status good = read_workload(); !good) return unexpected(good.error());
    if (const Status good = read_cache(); !good) return unexpected(good.error());
    if (const Status good = read_store(); !good) return unexpected(good.error());
    if (const Status good = read_settings(); !good) return unexpected(good.error());
    if (const Status good = check_webhook(); !good) return unexpected(good.error());
    read_bounds(kube::resources::kLimitRanges);
    read_bounds(kube::resources::kResourceQuotas);
    auto plan = plan_enable(input_);
    if (plan) plan->notes.insert(plan->notes.end(), unread_.begin(), unread_.end());
    return plan;
  }

  // With `dry_run` the API server judges both and changes nothing.
  Status apply(const EnablePlan& plan, bool dry_run) const {
    json made;
    if (!plan.cache.is_null()) {
      auto created = client_.create(caches(), plan.cache, {.dry_run = dry_run});
      if (!created) {
        return unexpected(
            created.error().with("creating CompileCache " + ns_ + "/" + plan.cache_name));
      }
      made = std::move(*created);
    }
    if (plan.patch.is_null()) return {};
    if (dry_run || made.is_null()) return patch(plan, dry_run);
    const Undo undo([&] { (void)remove(made); });
    const Status patched = patch(plan, dry_run);
    return patched ? patched : without_cache(patched.error(), made);
  }

 private:
  // A read that is forbidden is mentioned; every other failure ends the command.
  Status allow_forbidden(const Error& error, const std::string& not_checked) {
    if (error.code != ErrorCode::kForbidden) return unexpected(error);
    unread_.push_back("not checked, since you may not read it: " + not_checked);
    return {};
  }

  Status read_workload() {
    const auto named = workload_named(options_.workload);
    if (!named) {
      const std::string why = why_no_workload(options_.workload);
      return why.empty() ? Status(unexpected(named.error())) : fail(ErrorCode::kInvalid, why);
    }
    workload_ = *named;
    auto object = client_.get(named->resource, ns_, named->name);
    if (!object) {
      const std::string what = named->kind + " " + ns_ + "/" + named->name;
      if (object.error().code == ErrorCode::kNotFound) {
        return fail(ErrorCode::kNotFound, what + " not found");
      }
      return unexpected(object.error().with("reading " + what));
    }
    (*object)["apiVersion"] = named->resource.api_version();
    (*object)["kind"] = named->kind;
    auto made = workload_template(*object, ns_);
    if (!made) return unexpected(made.error());
    input_.object = std::move(*object);
    input_.workload = std::move(**made);
    return {};
  }

  Status read_cache() {
    input_.cache = options_.cache_name;
    input_.storage = options_.storage;
    const std::string name = cache_name_for(input_.workload, input_.cache);
    auto cache = client_.get(caches(), ns_, name);
    if (cache) {
      input_.existing = std::move(*cache);
      input_.existing["apiVersion"] = api::kApiVersion;
      input_.existing["kind"] = "CompileCache";
      return {};
    }
    if (cache.error().code != ErrorCode::kNotFound) {
      return unexpected(cache.error().with("reading CompileCache " + ns_ + "/" + name));
    }
    // The API server gives the same answer for a kind that it does not know.
    const auto group = client_.raw("GET", "/apis/compilecache.dev/v1alpha1");
    if (!group && group.error().code == ErrorCode::kNotFound) {
      return fail(ErrorCode::kNotFound,
                  "compile-cache is not installed in this cluster (no CompileCache resource); see "
                  "docs/run/install.md");
    }
    return {};
  }

  Status read_store() {
    const auto claim = claim_of_storage(options_.storage);
    if (!claim) return unexpected(claim.error());
    if (!input_.existing.is_null()) return {};
    return claim->empty() ? read_registry() : read_claim(*claim);
  }

  Status read_registry() {
    const std::string& ns = options_.operator_namespace;
    const auto service = client_.get(kube::resources::kServices, ns, api::kRegistryService);
    if (service) input_.registry = true;
    if (!service && service.error().code == ErrorCode::kNotFound) input_.registry = false;
    if (service || input_.registry) return {};
    return allow_forbidden(service.error(), "whether a registry is installed in namespace " + ns);
  }

  Status read_claim(const std::string& name) {
    auto claim = client_.get(kube::resources::kPersistentVolumeClaims, ns_, name);
    if (claim) {
      input_.claim = std::move(*claim);
      return {};
    }
    if (claim.error().code == ErrorCode::kNotFound) {
      return fail(ErrorCode::kNotFound, "PersistentVolumeClaim " + ns_ + "/" + name + " not found");
    }
    return allow_forbidden(claim.error(), "PersistentVolumeClaim " + name);
  }

  Status read_settings() {
    const std::string& ns = options_.operator_namespace;
    const auto settings = cli::read_settings(client_, ns);
    if (!settings) return unexpected(settings.error());
    input_.settings = controller::injection_settings(*settings, ns, "compilecache");
    return {};
  }

  Status check_webhook() {
    const auto listed = client_.list_all(kube::resources::kMutatingWebhookConfigurations, {});
    if (!listed) return allow_forbidden(listed.error(), "the webhook's configuration");
    const json webhook = webhook_among(listed->at("items"));
    if (webhook.is_null()) {
      unread_.push_back(
          "the operator's webhook is not installed, so pods start as before until it is");
      return {};
    }
    json labels = {{"kubernetes.io/metadata.name", ns_}};
    if (const auto ns = client_.get(kube::resources::kNamespaces, "", ns_)) {
      labels = at(*ns, "/metadata/labels");
    }
    const std::string why =
        why_not_sent(webhook, labels, at(input_.workload.pod_template, "/metadata/labels"));
    if (why.empty()) return {};
    return fail(ErrorCode::kInvalid,
                workload_.kind + " " + ns_ + "/" + workload_.name + " cannot be enabled: " + why);
  }

  void read_bounds(const kube::Resource& resource) {
    const auto listed = client_.list_all(resource, {.ns = ns_});
    if (!listed) {
      unread_.push_back("not checked: " + resource.kind + "s: " + listed.error().message);
      return;
    }
    for (json bound : listed->at("items")) {
      bound["apiVersion"] = resource.api_version();
      bound["kind"] = resource.kind;
      input_.bounds.push_back(std::move(bound));
    }
  }

  [[nodiscard]] Status patch(const EnablePlan& plan, bool dry_run) const {
    const auto patched = client_.patch(workload_.resource, ns_, plan.name, kube::PatchType::kJson,
                                       plan.patch, {.dry_run = dry_run});
    if (patched || (!dry_run && is_patched(plan))) return {};
    const std::string what = plan.kind + " " + ns_ + "/" + plan.name;
    if (has_changed()) {
      return fail(ErrorCode::kConflict, what + " was changed meanwhile; run the command again");
    }
    return unexpected(patched.error().with("patching " + what));
  }

  // An answer that was lost may have been a success.
  [[nodiscard]] bool is_patched(const EnablePlan& plan) const {
    const auto now = read_template();
    return now && kube::string_at(*now, {"metadata", "annotations", api::kCacheAnnotation}) ==
                      plan.cache_name;
  }

  // The test in the patch fails with no code of its own.
  [[nodiscard]] bool has_changed() const {
    const auto now = read_template();
    return now && *now != input_.workload.pod_template;
  }

  [[nodiscard]] std::optional<json> read_template() const {
    const auto object = client_.get(workload_.resource, ns_, workload_.name);
    if (!object) return std::nullopt;
    return at(*object, input_.workload.template_path.c_str());
  }

  [[nodiscard]] Status remove(const json& cache) const {
    const api::ObjectMeta meta = api::object_meta(cache);
    const auto removed = client_.remove(caches(), ns_, meta.name, {.uid = meta.uid});
    if (!removed) return unexpected(removed.error());
    return {};
  }

  [[nodiscard]] Status without_cache(const Error& error, const json& cache) const {
    const std::string name = "CompileCache " + api::object_meta(cache).name;
    const Status removed = remove(cache);
    return fail(error.code, error.message + "; " + name +
                                (removed ? " was deleted again"
                                         : " is left; delete it: " + removed.error().message));
  }

  const EnableOptions& options_;
  const kube::Client& client_;
  const std::string ns_;
  WorkloadName workload_;
  EnableInput input_;
  std::vector<std::string> unread_;
};

void tell(const EnablePlan& plan, std::ostream& errors) {
  for (const std::string& note : plan.notes) errors << "Note: " << printable(note) << "\n";
  if (!plan.consequence.empty()) errors << printable(plan.consequence) << "\n";
}

void tell_done(const EnablePlan& plan, std::ostream& out) {
  if (!plan.cache.is_null()) {
    out << printable("CompileCache " + plan.ns + "/" + plan.cache_name) << " created\n";
  }
  if (!plan.patch.is_null()) {
    out << printable(plan.kind + " " + plan.ns + "/" + plan.name) << " patched\n";
  }
}

}  // namespace

int run_enable(const EnableOptions& options, std::ostream& out, std::ostream& errors) {
  if (const auto claim = claim_of_storage(options.storage); !claim) {
    return complain(claim.error(), errors, kWrongUsage);
  }
  const auto cluster = connect(options.cluster);
  if (!cluster) return complain(cluster.error(), errors);
  Enable enable(options, *cluster);
  const auto plan = enable.plan();
  if (!plan) return complain(plan.error(), errors);
  if (plan->nothing_to_do()) {
    tell(*plan, errors);
    out << printable(plan->kind + " " + plan->ns + "/" + plan->name +
                     " is enabled already, with CompileCache " + plan->cache_name)
        << "\n";
    return 0;
  }
  out << yaml_of(*plan) << std::flush;
  tell(*plan, errors);
  if (const Status done = enable.apply(*plan, !options.yes); !done) {
    return complain(done.error(), errors);
  }
  if (options.yes) {
    tell_done(*plan, out);
  } else {
    errors << "Nothing was changed. --yes applies it.\n";
  }
  return 0;
}

}  // namespace compilecache::cli
