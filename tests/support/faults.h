// Allocations and thread creations that fail on demand, for programs named test_*_faults.c: the
// linker redirects every malloc, free, pthread_create ... of the program and the library to this
// file, but not those inside libc. The first, second, third ... call fails in turn, until a run
// makes fewer calls and succeeds:
//
//     for (long k = 1;; k++) {
//         faults_begin(k, FAULT_ONCE);
//         ... what is to be tested ...
//         faults_end();
//         if (!faults_struck()) break;
//         CHECK(... it failed cleanly ...);
//         CHECK_INT(faults_live(), 0);
//     }
//
// Blocks allocated in between and not freed are counted; earlier blocks and those of libc are not.
#ifndef WHET_TESTS_SUPPORT_FAULTS_H
#define WHET_TESTS_SUPPORT_FAULTS_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

// Only that call fails, or that call and all later ones, as when memory is used up.
typedef enum fault_kind { FAULT_ONCE, FAULT_FOR_GOOD } fault_kind;

enum { FAULTS_BLOCKS_MAX = 4096 };

static pthread_mutex_t faults_lock = PTHREAD_MUTEX_INITIALIZER;
static bool faults_active;
static long faults_at; // 0: never
static fault_kind faults_mode;
static long faults_calls;
static long faults_failed;
static void *faults_blocks[FAULTS_BLOCKS_MAX];
static long faults_block_count;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
int __real_posix_memalign(void **block, size_t alignment, size_t size);
char *__real_strdup(const char *text);
void __real_free(void *block);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*function)(void *), void *argument);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *block, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
int __wrap_posix_memalign(void **block, size_t alignment, size_t size);
char *__wrap_strdup(const char *text);
void __wrap_free(void *block);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*function)(void *), void *argument);

// Starts counting calls; call `at` fails, 0 for none.
static inline void faults_begin(long at, fault_kind kind) {
    pthread_mutex_lock(&faults_lock);
    faults_at = at;
    faults_mode = kind;
    faults_calls = faults_failed = faults_block_count = 0;
    faults_active = true;
    pthread_mutex_unlock(&faults_lock);
}

static inline void faults_end(void) {
    pthread_mutex_lock(&faults_lock);
    faults_active = false;
    pthread_mutex_unlock(&faults_lock);
}

// Calls since faults_begin, whether any failed, and blocks not freed yet.
static inline long faults_seen(void) { return faults_calls; }
static inline bool faults_struck(void) { return faults_failed > 0; }
static inline long faults_live(void) { return faults_block_count; }

static bool faults_fails(void) {
    bool fails = false;
    pthread_mutex_lock(&faults_lock);
    if (faults_active) {
        faults_calls++;
        fails = faults_at > 0 &&
                (faults_mode == FAULT_ONCE ? faults_calls == faults_at : faults_calls >= faults_at);
        faults_failed += fails;
    }
    pthread_mutex_unlock(&faults_lock);
    if (fails) {
        errno = ENOMEM;
    }
    return fails;
}

static void *faults_note(void *block) {
    pthread_mutex_lock(&faults_lock);
    if (faults_active && block) {
        if (faults_block_count == FAULTS_BLOCKS_MAX) {
            fputs("faults.h: more blocks than FAULTS_BLOCKS_MAX\n", stderr);
            abort();
        }
        faults_blocks[faults_block_count++] = block;
    }
    pthread_mutex_unlock(&faults_lock);
    return block;
}

static void faults_forget(const void *block) {
    pthread_mutex_lock(&faults_lock);
    for (long i = faults_block_count; block && i-- > 0;) {
        if (faults_blocks[i] == block) {
            faults_blocks[i] = faults_blocks[--faults_block_count];
            break;
        }
    }
    pthread_mutex_unlock(&faults_lock);
}

void *__wrap_malloc(size_t size) {
    return faults_fails() ? NULL : faults_note(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size) {
    return faults_fails() ? NULL : faults_note(__real_calloc(count, size));
}

void *__wrap_realloc(void *block, size_t size) {
    if (faults_fails()) {
        return NULL;
    }
    faults_forget(block);
    void *moved = __real_realloc(block, size);
    faults_note(moved ? moved : block);
    return moved;
}

void *__wrap_aligned_alloc(size_t alignment, size_t size) {
    return faults_fails() ? NULL : faults_note(__real_aligned_alloc(alignment, size));
}

int __wrap_posix_memalign(void **block, size_t alignment, size_t size) {
    if (faults_fails()) {
        return ENOMEM;
    }
    int error = __real_posix_memalign(block, alignment, size);
    if (error == 0) {
        faults_note(*block);
    }
    return error;
}

char *__wrap_strdup(const char *text) {
    return faults_fails() ? NULL : faults_note(__real_strdup(text));
}

void __wrap_free(void *block) {
    faults_forget(block);
    __real_free(block);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*function)(void *), void *argument) {
    if (faults_fails()) {
        return EAGAIN;
    }
    return __real_pthread_create(thread, attributes, function, argument);
}

#endif
