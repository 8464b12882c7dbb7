/*
 * Names of policies. Any bytes may be asked for as a name; one that is taken
 * must come out of whet_policy_name as a name that gives the same policy and
 * the same name again, and one that is refused must leave the policy alone and
 * say why in printable words. The same bytes then make a policy by the
 * functions for it, whose name must read back as well.
 */
#include "input.h"
#include "policy.h"
#include "whet.h"

enum { NAME_SIZE = 640, MESSAGE_SIZE = 700, CANARY = 0x5a };

static void check_message(const char *message, size_t size) {
    const char *end = memchr(message, '\0', size);
    FUZZ_CHECK(end != NULL);
    FUZZ_CHECK(end > message || size == 1);
    for (const char *c = message; c < end; c++) {
        FUZZ_CHECK(*c >= ' ' && *c <= '~');
    }
}

/* The name of a policy, which must fit; also cut to a few sizes, as snprintf would. */
static void name_of(const whet_policy *policy, char name[NAME_SIZE], size_t cut) {
    size_t length = whet_policy_name(policy, name, NAME_SIZE);
    FUZZ_CHECK(length < NAME_SIZE && strlen(name) == length);
    FUZZ_CHECK(whet_policy_name(policy, NULL, 0) == length);
    char *part = fuzz_allocate(cut);
    FUZZ_CHECK(whet_policy_name(policy, part, cut) == length);
    if (cut > 0) {
        size_t kept = length < cut - 1 ? length : cut - 1;
        FUZZ_CHECK(memcmp(part, name, kept) == 0 && part[kept] == '\0');
    }
    free(part);
}

static void check_reads_back(const whet_policy *policy, bool same_bytes, size_t cut) {
    char name[NAME_SIZE];
    char again[NAME_SIZE];
    char message[MESSAGE_SIZE];
    whet_policy back;
    memset(&back, 0, sizeof back);
    name_of(policy, name, cut);
    FUZZ_CHECK(whet_policy_parse(name, &back, message, sizeof message) == WHET_OK);
    FUZZ_CHECK(!same_bytes || fuzz_same(policy, &back, sizeof back));
    name_of(&back, again, cut);
    FUZZ_CHECK(strcmp(name, again) == 0);
}

static void ask_for(const uint8_t *data, size_t size, size_t message_size) {
    char *name = fuzz_allocate(size + 1);
    memcpy(name, data, size);
    name[size] = '\0';
    char *message = fuzz_allocate(message_size);
    whet_policy policy;
    whet_policy before;
    memset(&policy, CANARY, sizeof policy);
    before = policy;
    whet_status status = whet_policy_parse(name, &policy, message, message_size);
    if (status == WHET_OK) {
        FUZZ_CHECK(whet_policy_check(&policy, NULL, 0) == WHET_OK);
        check_reads_back(&policy, true, message_size);
    } else {
        FUZZ_CHECK(status == WHET_ERROR_POLICY);
        FUZZ_CHECK(fuzz_same(&policy, &before, sizeof policy));
        if (message_size > 0) {
            check_message(message, message_size);
        }
        FUZZ_CHECK(whet_policy_parse(name, &policy, NULL, 0) == status);
    }
    free(message);
    free(name);
}

/* Whether a policy, which need not be one, is sound. */
static bool check_any(const whet_policy *policy, size_t cut) {
    char message[MESSAGE_SIZE] = "";
    char name[NAME_SIZE];
    name_of(policy, name, cut);
    whet_status status = whet_policy_check(policy, message, sizeof message);
    if (status != WHET_OK) {
        FUZZ_CHECK(status == WHET_ERROR_POLICY);
        check_message(message, sizeof message);
    }
    return status == WHET_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    /* The last byte is the size of the message, so that a corpus of plain names is a good one. */
    size_t message_size = data[size - 1];
    ask_for(data, size, message_size);

    fuzz_input input = {data, size};
    double beta = 1;
    whet_policy broken = fuzz_broken_policy(&input);
    check_any(&broken, message_size);
    whet_policy policy = fuzz_policy(&input, &beta);
    if (check_any(&policy, message_size) && policy.temperature != WHET_POLICY_CUSTOM) {
        check_reads_back(&policy, false, message_size);
    }
    return 0;
}
