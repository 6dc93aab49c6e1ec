// What sanitizers find in cpprestsdk and not in us; read by them only.

extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions();

// The library comes without ThreadSanitizer's checks, so that it does not see that its reference
// counts keep what one thread frees from the others.
extern "C" const char* __tsan_default_suppressions() {
  return "race:web::http::client::details::asio_context\n"
         "race:pplx::details::_RefCounter::_Release\n";
}

// The library's threads live as long as the process, and so does what OpenSSL keeps for each
// thread; its frames end at libcrypto's own.
extern "C" const char* __lsan_default_suppressions() { return "leak:libcrypto.so\n"; }
