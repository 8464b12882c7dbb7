/* The policy of a row: see policy_traits.h. */
#include "attention/policy_traits.h"
#include "attention/mask.h"

whet_policy whet_row_policy(const kv_slice *slice, const query_row *row) {
    whet_policy policy = *row->policy;
    if (policy_bias_is_log_n(&policy))
        policy.value[0] = log((double)whet_count_visible(slice, row));
    return policy;
}
