#include <memory>
#include <vector>

#include <png.h>
#include <turbojpeg.h>
#include <webp/decode.h>

#include "worker/audio/foreign.h"

namespace audiogen {
namespace {

// Before the decoding: a small file can stand for any number of pixels.
std::optional<DecodeFault> check_size(std::int64_t width, std::int64_t height) {
  if (width < 1 || height < 1) {
    return DecodeFault::kCorrupt;
  }
  return width > std::int64_t{kImageSideMax} || height > std::int64_t{kImageSideMax} ||
                 width * height > kImagePixelsMax
             ? std::optional(DecodeFault::kImageTooLarge)
             : std::nullopt;
}

const unsigned char* data_of(std::string_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

Result<ImageInfo, DecodeFault> decode_png(std::string_view bytes) {
  struct Free {
    void operator()(png_image* image) const { png_image_free(image); }
  };
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  const std::unique_ptr<png_image, Free> owner(&image);
  if (png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()) == 0) {
    return DecodeFault::kCorrupt;
  }
  if (const auto fault = check_size(image.width, image.height)) {
    return *fault;
  }
  image.format = PNG_FORMAT_GRAY;
  const ImageInfo out{
      ImageType::kPng, static_cast<int>(image.width), static_cast<int>(image.height)};
  const png_color background{};
  std::vector<unsigned char> pixels(PNG_IMAGE_SIZE(image));
  if (png_image_finish_read(&image, &background, pixels.data(), 0, nullptr) == 0) {
    return DecodeFault::kCorrupt;
  }
  return out;
}

Result<ImageInfo, DecodeFault> decode_jpeg(std::string_view bytes) {
  struct Destroy {
    void operator()(void* handle) const { tjDestroy(handle); }
  };
  const std::unique_ptr<void, Destroy> decoder(tjInitDecompress());
  ImageInfo out{ImageType::kJpeg};
  int subsampling = 0, colours = 0;
  const auto size = static_cast<unsigned long>(bytes.size());
  if (!decoder ||
      tjDecompressHeader3(
          decoder.get(), data_of(bytes), size, &out.width, &out.height, &subsampling, &colours) !=
          0) {
    return DecodeFault::kCorrupt;
  }
  if (const auto fault = check_size(out.width, out.height)) {
    return *fault;
  }
  const int format = colours == TJCS_CMYK || colours == TJCS_YCCK ? TJPF_CMYK : TJPF_GRAY;
  std::vector<unsigned char> pixels(static_cast<std::size_t>(out.width) *
                                    static_cast<std::size_t>(out.height) *
                                    static_cast<std::size_t>(tjPixelSize[format]));
  // A picture that ends early would only be a warning; a small file can ask for passes without end.
  if (tjDecompress2(decoder.get(),
                    data_of(bytes),
                    size,
                    pixels.data(),
                    out.width,
                    0,
                    out.height,
                    format,
                    TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS) != 0) {
    return DecodeFault::kCorrupt;
  }
  return out;
}

Result<ImageInfo, DecodeFault> decode_webp(std::string_view bytes) {
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0 ||
      WebPGetFeatures(data_of(bytes), bytes.size(), &config.input) != VP8_STATUS_OK) {
    return DecodeFault::kCorrupt;
  }
  const ImageInfo out{ImageType::kWebp, config.input.width, config.input.height};
  if (const auto fault = check_size(out.width, out.height)) {
    return *fault;
  }
  if (config.input.has_animation != 0) {
    return DecodeFault::kNotThisType;
  }
  config.output.colorspace = MODE_RGB_565;  // the smallest
  const VP8StatusCode status = WebPDecode(data_of(bytes), bytes.size(), &config);
  WebPFreeDecBuffer(&config.output);
  return status == VP8_STATUS_OK ? Result<ImageInfo, DecodeFault>(out) : DecodeFault::kCorrupt;
}

}  // namespace

Result<ImageInfo, DecodeFault> unpack_foreign_image(std::string_view bytes, ImageType type) {
  switch (type) {
    case ImageType::kPng:
      return decode_png(bytes);
    case ImageType::kJpeg:
      return decode_jpeg(bytes);
    case ImageType::kWebp:
      return decode_webp(bytes);
  }
  return DecodeFault::kNotThisType;
}

}  // namespace audiogen
