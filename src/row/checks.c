/* The checks that calls on rows share: see checks.h. */
#include "row/checks.h"
#include "base/last_error.h"
#include "policy/beta.h"

whet_status whet_check_row_policy(const whet_policy **policy, whet_policy *plain,
                                  const float *beta) {
    *plain = whet_policy_softmax();
    if (!*policy)
        *policy = plain;
    whet_status status = whet_policy_check(*policy, NULL, 0);
    if (status != WHET_OK)
        return whet_refuse(status, "policy: %s", whet_last_error());
    if (beta && !whet_beta_is_one(*policy))
        return whet_refuse(WHET_ERROR_ARGUMENT,
                           "beta is given, but the policy has a temperature of its own: use "
                           "softmax or a map");
    return WHET_OK;
}
