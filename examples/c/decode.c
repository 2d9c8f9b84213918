/* Decodes a PPM file by a model of ImageDecoder, which asks its host:
   cc decode.c libdecoder.so && ./a.out image.ppm */
#include <stdio.h>
#include <string.h>
#include "libdecoder.h"

/* Finds width, height and the greatest value behind P6; returns where the pixels begin, 0 for other bytes. */
static int64_t header(const uint8_t *data, int64_t size, int64_t numbers[3]) {
  int64_t at = 2;
  if (size < 2 || memcmp(data, "P6", 2) != 0) return 0;
  for (int i = 0; i < 3; i++) {
    while (at < size && (data[at] == ' ' || data[at] == '\n')) at++;
    numbers[i] = 0;
    while (at < size && data[at] >= '0' && data[at] <= '9' && numbers[i] < 10000)
      numbers[i] = 10 * numbers[i] + data[at++] - '0';
    if (at == size || numbers[i] < 1) return 0;
  }
  return numbers[2] == 255 && size - at - 1 >= 3 * numbers[0] * numbers[1] ? at + 1 : 0;
}

/* The model's questions: values are the file, of dims[0] bytes, and what is to be filled. */
static int32_t answer(void *user, const char *text, void *const *values, const int64_t *dims) {
  const uint8_t *data = values[0];
  int64_t numbers[3], begin = header(data, dims[0], numbers), *size = values[1];
  (void)user;
  if (begin == 0) return 1;
  if (strncmp(text, "image_size(", 11) == 0) {
    size[0] = numbers[1], size[1] = numbers[0];
    return 0;
  }
  if (strncmp(text, "image_pixels.RGB(", 17) != 0) return 2;
  memcpy(values[1], data + begin, (size_t)(dims[1] * dims[2] * dims[3]));
  return 0;
}

int main(int argc, char **argv) {
  static uint8_t data[1 << 20];
  static _Alignas(64) uint8_t workspace[decoder_WORKSPACE_SIZE];
  FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;
  if (file == NULL) return 1;
  int64_t height, width, read = (int64_t)fread(data, 1, sizeof data, file);
  weft_options options = {.size = sizeof options, .threads = 1, .call_host = answer};
  weft_context *context = decoder_create(&options);
  uint8_t *pixels;
  int32_t status = decoder_infer(context, read, data, &pixels, &height, &width, workspace, sizeof workspace);
  if (status == WEFT_OK) {
    printf("%d %d %d\n", (int)height, (int)width, pixels[3 * height * width - 1]);
    decoder_release(context, pixels);
  } else {
    printf("%s\n", decoder_last_error(context));
  }
  decoder_destroy(context), fclose(file);
  return status;
}
