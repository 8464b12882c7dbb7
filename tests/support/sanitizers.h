// Which sanitizer a test program is built with, for tests that it does not support.
#ifndef WHET_TESTS_SUPPORT_SANITIZERS_H
#define WHET_TESTS_SUPPORT_SANITIZERS_H

#if defined(__has_feature)
#define SANITIZER_FEATURE(name) __has_feature(name)
#else
#define SANITIZER_FEATURE(name) 0
#endif

#if defined(__SANITIZE_THREAD__) || SANITIZER_FEATURE(thread_sanitizer)
#define WITH_THREAD_SANITIZER 1
#else
#define WITH_THREAD_SANITIZER 0
#endif

#if defined(__SANITIZE_ADDRESS__) || SANITIZER_FEATURE(address_sanitizer)
#define WITH_ADDRESS_SANITIZER 1
#else
#define WITH_ADDRESS_SANITIZER 0
#endif

#endif
