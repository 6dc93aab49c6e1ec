#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/error.hpp"

// The command line of compilecache-operator.

namespace compilecache::controller {

struct OperatorOptions {
  std::string settings = "/etc/compilecache/settings.yaml";
  std::string kubeconfig, context;
  std::string ns;              // the operator's; --namespace, else POD_NAMESPACE
  std::string pod_name;        // POD_NAME; empty outside a cluster
  std::string pod_uid;         // POD_UID; empty: another one at each start
  std::string pod_ip;          // POD_IP, or --advertise-address; empty: agents are not sent here
  std::string certificates;    // --certificates: a folder; empty: our own authority
  std::string image;           // --image; empty: the own pod's
  std::string agent_address;   // --agent-address; empty: the settings', else the Service's
  std::string listen_address;  // of all three ports; empty: all addresses
  uint16_t webhook_port = 9443, agent_port = 9444, plain_port = 8080;
  std::string webhook_configuration = "compilecache";
  std::string webhook_client_ca;  // --webhook-client-ca: a file; empty: API servers show nothing
  bool replace_stuck_pods = false;
  bool registry = false;  // the installation has a registry of its own
  bool authorize_metrics =
      false;  // /metrics on the agents' port, for whom the API server allows it
  std::chrono::milliseconds drain{10'000};
  std::string log_format = "json";
  std::string log_level = "info";
};

struct ParsedOptions {
  OperatorOptions options;
  // Set when the program is to end at once: after --help or --version with status 0, after a wrong
  // command line with status 2.
  bool exit = false;
  int exit_code = 0;
};

// Prints the output of --help and --version, and what is wrong with the command line.
ParsedOptions parse_options(int argc, const char* const* argv);

}  // namespace compilecache::controller
