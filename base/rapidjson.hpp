#pragma once

// RapidJSON, configured the same for every file: include this in place of its own headers.
//
// With SSE2 it reads and writes 16 bytes at a time, and so reads up to 15 bytes beyond a text,
// within the same 16 aligned bytes. That harms nothing, but the sanitizers do not allow it.

#if defined(__SSE2__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__clang__)
#define RAPIDJSON_SSE2
#endif

// It adds to a null pointer before its first push (later releases do not), which clang's sanitizer
// for undefined behaviour would report each time.
#ifdef __clang__
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wignored-attributes"  // of functions that were defined before
#pragma clang attribute push(__attribute__((no_sanitize("pointer-overflow"))), apply_to = function)
#endif

#include <rapidjson/document.h>
#include <rapidjson/error/en.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#ifdef __clang__
#pragma clang attribute pop
#pragma clang diagnostic pop
#endif
