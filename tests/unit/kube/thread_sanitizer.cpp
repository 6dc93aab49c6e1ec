// Read by ThreadSanitizer only. cpprestsdk comes without its checks, so it does not see that the
// library's reference counts keep what one thread frees from the others.

extern "C" const char* __tsan_default_suppressions();

extern "C" const char* __tsan_default_suppressions() {
  return "race:web::http::client::details::asio_context\n"
         "race:pplx::details::_RefCounter::_Release\n";
}
