# cc_ssl, cc_crypto, cc_zlib, cc_zstd, cc_yaml and cc_cpprest: the system's shared libraries, but their static ones in a program whose property
# CC_STATIC_LIBRARIES is set. (OPENSSL_USE_STATIC_LIBS is for all programs, and cpprest brings the shared OpenSSL.)

pkg_check_modules(ZLIB REQUIRED IMPORTED_TARGET zlib)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)

# cc_system_library(NAME SHARED ARCHIVE [NEEDED...]): the static one is an imported target that says what it needs
# itself, so that a linker which reads archives in their order finds each before what it needs.
function(cc_system_library name shared archive)
  find_library(${name}_ARCHIVE NAMES ${archive} REQUIRED)
  add_library(${name}_static STATIC IMPORTED GLOBAL)
  set_target_properties(${name}_static PROPERTIES
    IMPORTED_LOCATION "${${name}_ARCHIVE}" INTERFACE_LINK_LIBRARIES "${ARGN}")
  add_library(${name} INTERFACE)
  target_link_libraries(${name} INTERFACE
    "$<IF:$<BOOL:$<TARGET_PROPERTY:CC_STATIC_LIBRARIES>>,${name}_static,${shared}>")
endfunction()

cc_system_library(cc_crypto OpenSSL::Crypto libcrypto.a Threads::Threads ${CMAKE_DL_LIBS})
cc_system_library(cc_ssl OpenSSL::SSL libssl.a cc_crypto_static)
cc_system_library(cc_zlib PkgConfig::ZLIB libz.a)
cc_system_library(cc_zstd PkgConfig::ZSTD libzstd.a)
cc_system_library(cc_yaml yaml-cpp libyaml-cpp.a)
cc_system_library(cc_boost_filesystem Boost::filesystem libboost_filesystem.a)

# Debian has no static cpprestsdk; image/cpprest compiles one from Debian's source. Without it there is no kubectl-compilecache-static.
set(COMPILECACHE_CPPREST_ARCHIVE "" CACHE FILEPATH "libcpprest.a, for a plugin that is one static file")
if(COMPILECACHE_CPPREST_ARCHIVE)
  set(cc_cpprest_ARCHIVE ${COMPILECACHE_CPPREST_ARCHIVE})
  cc_system_library(cc_boost_chrono Boost::chrono libboost_chrono.a)
  cc_system_library(cc_boost_thread Boost::thread libboost_thread.a cc_boost_chrono_static)
  cc_system_library(cc_cpprest cpprestsdk::cpprest libcpprest.a cc_ssl_static cc_crypto_static cc_boost_filesystem_static cc_boost_thread_static
                    cc_boost_chrono_static)
else()
  add_library(cc_cpprest INTERFACE)
  target_link_libraries(cc_cpprest INTERFACE cpprestsdk::cpprest)
endif()
