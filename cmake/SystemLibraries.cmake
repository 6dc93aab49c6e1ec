# cc_ssl, cc_crypto and cc_zstd: the system's shared libraries, but their static ones in a program whose property
# CC_STATIC_LIBRARIES is set. (OPENSSL_USE_STATIC_LIBS is for all programs, and cpprest brings the shared OpenSSL.)

pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)

function(cc_system_library name shared archive)
  find_library(${name}_ARCHIVE NAMES ${archive} REQUIRED)
  add_library(${name} INTERFACE)
  target_link_libraries(${name} INTERFACE
    "$<IF:$<BOOL:$<TARGET_PROPERTY:CC_STATIC_LIBRARIES>>,${${name}_ARCHIVE},${shared}>")
endfunction()

cc_system_library(cc_crypto OpenSSL::Crypto libcrypto.a)
cc_system_library(cc_ssl OpenSSL::SSL libssl.a)
target_link_libraries(cc_ssl INTERFACE cc_crypto)
cc_system_library(cc_zstd PkgConfig::ZSTD libzstd.a)
