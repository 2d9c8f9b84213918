/* Runs the self-test of the model `dense`; prints why it failed. */
#include <stdio.h>

#include "libdense.h"

int main(void) {
    if (dense_self_test(NULL) != WEFT_NULL_POINTER) return 2;
    if (!(dense_query()->flags & WEFT_HAS_SELF_TEST)) return 3;
    weft_options options = {.size = sizeof options, .threads = 2};
    weft_context *context = dense_create(&options);
    if (context == NULL) return 4;
    int32_t status = dense_self_test(context);
    printf("%d%s\n", (int)status, dense_last_error(context));
    dense_destroy(context);
    return 0;
}
