#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "kube/client.hpp"
#include "kube/cpprest_transport.hpp"
#include "tests/support/fake_apiserver.hpp"
#include "tests/support/soon.hpp"

// Shared by the tests against the scripted API server.

namespace compilecache::kube {

using Json = nlohmann::json;
using compilecache::testing::fake_status;
using compilecache::testing::FakeApiServer;
using compilecache::testing::FakeConnection;
using compilecache::testing::FakeRequest;
using compilecache::testing::soon;

inline std::shared_ptr<HttpTransport> transport_to(const std::string& url) {
  Config config;
  config.source = "the test";
  config.server = url;
  return *make_transport(config);
}

// A server, and a client of it.
class ServerTest : public ::testing::Test {
 protected:
  // One request is answered so.
  void reply_once(int status, const std::string& body,
                  const std::map<std::string, std::string>& headers = {}) {
    server.script([=](const FakeRequest&, FakeConnection& connection) {
      connection.reply(status, body, headers);
      return true;
    });
  }
  // One request is not answered.
  void hang_once() {
    server.script([](const FakeRequest&, FakeConnection& connection) {
      connection.wait_closed(std::chrono::minutes(1));
      return true;
    });
  }

  FakeApiServer server;
  std::shared_ptr<HttpTransport> transport = transport_to(server.url());
  Client client{transport};
};

}  // namespace compilecache::kube
