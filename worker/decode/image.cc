#include "worker/decode/image.h"

#include <csetjmp>
#include <cstdio>  // jpeglib.h forgets it
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include <jerror.h>
#include <jpeglib.h>
#include <png.h>
#include <webp/decode.h>

namespace audiogen {
namespace {

bool worth_decoding(const ImageInfo& info) {
  return info.width <= kImageSideMax && info.height <= kImageSideMax &&
         std::int64_t{info.width} * info.height <= kImagePixelsMax;
}

// ---- PNG ----------------------------------------------------------------------------------------

// libpng and libjpeg leave a function by longjmp, which runs no destructors: what has one lives
// outside of the function that calls setjmp.
struct Png {
  std::string_view rest;
  std::vector<png_byte> row;
  png_structp reader = png_create_read_struct(
      PNG_LIBPNG_VER_STRING,
      nullptr,
      [](png_structp png, png_const_charp) { png_longjmp(png, 1); },
      [](png_structp, png_const_charp) {});
  png_infop info = reader != nullptr ? png_create_info_struct(reader) : nullptr;

  explicit Png(std::string_view bytes) : rest(bytes) {}
  Png(const Png&) = delete;
  Png& operator=(const Png&) = delete;
  ~Png() { png_destroy_read_struct(&reader, &info, nullptr); }
};

void take_png(png_structp reader, png_bytep out, std::size_t size) {
  std::string_view& rest = static_cast<Png*>(png_get_io_ptr(reader))->rest;
  if (rest.size() < size) {
    png_error(reader, "cut short");
  }
  std::memcpy(out, rest.data(), size);
  rest.remove_prefix(size);
}

bool read_png(Png& png, ImageInfo& out) {
  if (png.info == nullptr || setjmp(png_jmpbuf(png.reader)) != 0) {
    return false;
  }
  png_set_read_fn(png.reader, &png, take_png);
  // Ours come below; libpng's own would turn a very large image into a damaged one.
  png_set_user_limits(png.reader, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  png_read_info(png.reader, png.info);
  out.width = static_cast<int>(png_get_image_width(png.reader, png.info));
  out.height = static_cast<int>(png_get_image_height(png.reader, png.info));
  if (!worth_decoding(out)) {
    return true;
  }
  const int passes = png_set_interlace_handling(png.reader);
  png_read_update_info(png.reader, png.info);
  png.row.resize(png_get_rowbytes(png.reader, png.info));
  for (int row = 0; row < passes * out.height; ++row) {
    png_read_row(png.reader, png.row.data(), nullptr);
  }
  png_read_end(png.reader, nullptr);
  return true;
}

// ---- JPEG ---------------------------------------------------------------------------------------

constexpr int kScansMax = 200;  // of a progressive file; 64 is already strange, thousands a bomb

struct Jpeg {
  jpeg_decompress_struct reader{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf jump{};
  std::vector<JSAMPLE> row;

  Jpeg();
  Jpeg(const Jpeg&) = delete;
  Jpeg& operator=(const Jpeg&) = delete;
  ~Jpeg() { jpeg_destroy_decompress(&reader); }
};

[[noreturn]] void fail_jpeg(j_common_ptr reader) {
  std::longjmp(static_cast<Jpeg*>(reader->client_data)->jump, 1);
}

// libjpeg fills what is missing or damaged with grey and only warns.
void on_jpeg_message(j_common_ptr reader, int level) {
  const int code = reader->err->msg_code;
  // Common in files that every program shows.
  const bool harmless = code == JWRN_EXTRANEOUS_DATA || code == JWRN_JFIF_MAJOR ||
                        code == JWRN_ADOBE_XFORM || code == JWRN_BOGUS_ICC;
  if (level < 0 && !harmless) {
    fail_jpeg(reader);
  }
}

void on_jpeg_progress(j_common_ptr reader) {
  const auto* const decoder = reinterpret_cast<j_decompress_ptr>(reader);
  if (decoder->input_scan_number > kScansMax) {
    fail_jpeg(reader);
  }
}

Jpeg::Jpeg() {
  reader.err = jpeg_std_error(&errors);
  errors.error_exit = fail_jpeg;
  errors.emit_message = on_jpeg_message;
  progress.progress_monitor = on_jpeg_progress;
}

bool read_jpeg(Jpeg& jpeg, std::string_view bytes, ImageInfo& out) {
  jpeg.reader.client_data = &jpeg;
  if (setjmp(jpeg.jump) != 0) {
    return false;
  }
  jpeg_create_decompress(&jpeg.reader);
  jpeg.reader.progress = &jpeg.progress;
  jpeg_mem_src(&jpeg.reader, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&jpeg.reader, TRUE);
  out.width = static_cast<int>(jpeg.reader.image_width);
  out.height = static_cast<int>(jpeg.reader.image_height);
  if (!worth_decoding(out)) {
    return true;
  }
  // Nobody sees the pixels.
  jpeg.reader.out_color_space = jpeg.reader.jpeg_color_space;
  jpeg.reader.dct_method = JDCT_IFAST;
  jpeg.reader.do_fancy_upsampling = FALSE;
  jpeg_start_decompress(&jpeg.reader);
  jpeg.row.resize(static_cast<std::size_t>(jpeg.reader.output_width) *
                  static_cast<std::size_t>(jpeg.reader.output_components));
  JSAMPROW row = jpeg.row.data();
  while (jpeg.reader.output_scanline < jpeg.reader.output_height) {
    jpeg_read_scanlines(&jpeg.reader, &row, 1);
  }
  jpeg_finish_decompress(&jpeg.reader);
  return true;
}

// ---- WebP ---------------------------------------------------------------------------------------

bool read_webp(std::string_view bytes, ImageInfo& out) {
  const auto* const data = reinterpret_cast<const std::uint8_t*>(bytes.data());
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0 ||
      WebPGetFeatures(data, bytes.size(), &config.input) != VP8_STATUS_OK) {
    return false;
  }
  out.width = config.input.width;
  out.height = config.input.height;
  if (!worth_decoding(out)) {
    return true;
  }
  config.output.colorspace = MODE_YUVA;  // the smallest that has everything
  const VP8StatusCode status = WebPDecode(data, bytes.size(), &config);  // refuses animations
  WebPFreeDecBuffer(&config.output);
  return status == VP8_STATUS_OK;
}

}  // namespace

Result<ImageInfo> inspect_image(std::string_view bytes) {
  ImageInfo out;
  bool whole = false;
  if (bytes.starts_with("\x89PNG\r\n\x1a\n")) {
    out.type = ImageType::kPng;
    Png png(bytes);
    whole = read_png(png, out);
  } else if (bytes.starts_with("\xFF\xD8\xFF")) {
    out.type = ImageType::kJpeg;
    Jpeg jpeg;
    whole = read_jpeg(jpeg, bytes, out);
  } else if (bytes.starts_with("RIFF") && bytes.size() > 12 && bytes.substr(8, 4) == "WEBP") {
    out.type = ImageType::kWebp;
    whole = read_webp(bytes, out);
  } else {
    return Error{"no png, jpeg or webp"};
  }
  if (!whole) {
    return Error{"a damaged image"};
  }
  return out;
}

}  // namespace audiogen
