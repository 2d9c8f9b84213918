/* Prints the class of an image, a file of floats: cc classify.c libresnet50.so && ./a.out image.raw */
#include <stdio.h>
#include <stdlib.h>
#include "libresnet50.h"

static float image[resnet50_INPUT_0_ELEMENTS], scores[resnet50_OUTPUT_0_ELEMENTS];

int main(int argc, char **argv) {
  FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;
  if (file == NULL || fread(image, sizeof image, 1, file) != 1) return 1;
  const void *inputs[] = {image};
  void *outputs[] = {scores}, *workspace = aligned_alloc(64, resnet50_WORKSPACE_SIZE);
  weft_context *context = resnet50_create(NULL);
  weft_call call = {.size = sizeof call, .inputs = inputs, .outputs = outputs,
                    .workspace = workspace, .workspace_size = resnet50_WORKSPACE_SIZE};
  if (resnet50_run(context, &call) != WEFT_OK) return 2;
  int best = 0;
  for (int i = 1; i < (int)resnet50_OUTPUT_0_ELEMENTS; i++) best = scores[i] > scores[best] ? i : best;
  printf("%d\n", best);
  resnet50_destroy(context), free(workspace), fclose(file);
}
