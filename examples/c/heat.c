/* Prints how warm the rod of jax_in_c.py gets: cc heat.c libheat.so && ./a.out */
#include <stdio.h>
#include <stdlib.h>
#include "libheat.h"

static float rod[heat_INPUT_0_ELEMENTS] = {100}, after[heat_OUTPUT_0_ELEMENTS];

int main(void) {
  const void *inputs[] = {rod};
  void *outputs[] = {after}, *workspace = aligned_alloc(64, heat_WORKSPACE_SIZE);
  weft_context *context = heat_create(NULL);
  weft_call call = {.size = sizeof call, .inputs = inputs, .outputs = outputs,
                    .workspace = workspace, .workspace_size = heat_WORKSPACE_SIZE};
  if (heat_run(context, &call) != WEFT_OK) return 2;
  for (int i = 0; i < (int)heat_OUTPUT_0_ELEMENTS; i += 8) printf("%.2f ", after[i]);
  printf("\n");
  heat_destroy(context), free(workspace);
}
