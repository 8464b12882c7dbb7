/*
 * The plug-in's settings are removed from the environment, and nothing else
 * is.
 */
#include "llama/environment.h"
#include "support/check.h"
#include <stdlib.h>
#include <string.h>

TEST(all_variables_that_may_be_settings_are_removed) {
    setenv("WHET_POLICY", "adaptive", 1);
    setenv("WHET_STATS", "", 1);
    setenv("WHET_POLCY", "adaptive", 1);
    setenv("WHET_ISA", "scalar", 1);
    setenv("WHETSTONE", "1", 1);
    environment_clear();
    CHECK(!getenv("WHET_POLICY") && !getenv("WHET_STATS") && !getenv("WHET_POLCY"));
    const char *isa = getenv("WHET_ISA");
    CHECK(isa && strcmp(isa, "scalar") == 0);
    CHECK(getenv("WHETSTONE") != NULL && getenv("PATH") != NULL);
}

TEST(an_environment_without_them_does_not_change) {
    setenv("WHETSTONE", "1", 1);
    environment_clear();
    environment_clear();
    CHECK(getenv("WHETSTONE") != NULL);
}
