/* Trains the network of train_in_c.py on its digits: cc train.c libstep.so && ./a.out digits.bin */
#include <stdio.h>
#include <stdlib.h>
#include "libstep.h"

enum { IMAGES = step_INPUT_COUNT - 2, LABELS, STEPS = 900 };

int main(int argc, char **argv) {
  FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;
  uint64_t bytes[step_INPUT_COUNT];
  char *data[step_INPUT_COUNT];
  for (int i = 0; i < step_INPUT_COUNT; i++) { /* each input: how many bytes, and these */
    if (file == NULL || fread(&bytes[i], sizeof bytes[i], 1, file) != 1) return 1;
    data[i] = malloc(bytes[i]);
    if (fread(data[i], 1, bytes[i], file) != bytes[i]) return 1;
  }
  float loss;
  const void *inputs[step_INPUT_COUNT];
  void *outputs[step_OUTPUT_COUNT] = {&loss}, *workspace = aligned_alloc(64, step_WORKSPACE_SIZE);
  for (int i = 0; i < step_DONATED_COUNT; i++) outputs[1 + i] = data[i]; /* updated in place */
  weft_context *context = step_create(NULL);
  weft_call call = {.size = sizeof call, .inputs = inputs, .outputs = outputs,
                    .workspace = workspace, .workspace_size = step_WORKSPACE_SIZE};
  uint64_t batches = bytes[LABELS] / step_INPUT_6_BYTES;
  for (int i = 0; i < STEPS; i++) {
    for (int n = 0; n < step_INPUT_COUNT; n++) inputs[n] = data[n];
    inputs[IMAGES] = data[IMAGES] + i % batches * step_INPUT_5_BYTES;
    inputs[LABELS] = data[LABELS] + i % batches * step_INPUT_6_BYTES;
    if (step_run(context, &call) != WEFT_OK) return 2;
    if (i == 0 || i == STEPS - 1) printf("%g\n", loss);
  }
  step_destroy(context), free(workspace), fclose(file);
}
