// A digest of everything libwhet computes: one line per case and result, with a hash of its bits.
// Two builds with the same lines compute the same. tools/digest runs the program once for each
// instruction set and compares builds.
//
// Uses whet.h and nothing else of the library, so that the program also compiles against other
// versions of it. Inputs come from a generator of its own and depend on a case's name and size
// only.
#ifndef WHET_TESTS_DIGEST_H
#define WHET_TESTS_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "whet.h"

// What came with version 0.3: compositions, more statistics, sinks and betas of rows, and the other
// quantised types of caches.
#define DIGEST_HAS_ROW_EXTRAS (WHET_VERSION_MAJOR > 0 || WHET_VERSION_MINOR >= 3)

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

// --- groups: the cases that share a line --------------------------------------------------------

// Only paths that begin with one of these are computed; all of them without any.
void digest_select(char *const *prefixes, size_t count);

// Starts the lines "<set> <path> <policy> <type> <mask> <size> ..."; false if not selected.
bool group_begin(const char *path, const char *policy, const char *type, const char *mask,
                 const char *size);
// Each adds to the hash of the line that ends with `what`; NaNs count as equal.
void group_add(const char *what, uint64_t value);
void group_add_elements(const char *what, const void *values, whet_type type, size_t n);
void group_add_doubles(const char *what, const double *values, size_t n);
// Every field is a line of its own, so that a struct that grows keeps the lines it has.
void group_add_stats(const whet_stats *stats, size_t count);
void group_add_policy_gradients(const whet_policy_gradient *gradients, size_t count);
// True if there are results to add; a refusal is reported on standard error.
bool group_add_status(whet_status status, uint64_t first_bad_row);
void group_end(void);

// --- inputs -------------------------------------------------------------------------------------

uint64_t noise_bits(uint64_t seed, uint64_t i);
float noise(uint64_t seed, uint64_t i); // about normal: deviation 1, between -3.47 and 3.47

size_t element_bytes(whet_type type); // f32, f16, bf16; one byte for custom
const char *type_name(whet_type type);
void store(void *elements, whet_type type, size_t i, float value);
// One row of n elements; blocks of quantised types and custom bytes are random bits.
bool is_quantised(whet_type type);
size_t row_bytes(whet_type type, size_t n);
void fill_row(void *row, whet_type type, size_t n, uint64_t seed, float deviation, float mean);

void *allocate(size_t bytes); // filled with 0xa5; ends the program without memory

struct named_policy {
    char name[96];
    whet_policy policy;
};
// The example of each entry in whet_policy_table, then variants; valid until the program ends.
const struct named_policy *all_policies(size_t *count);
const struct named_policy *policy_named(const char *name);

// --- the cases ----------------------------------------------------------------------------------

void digest_rows(void);
void digest_rows_backward(void);
void digest_row_extras(void);
void digest_attention(void);

#endif
