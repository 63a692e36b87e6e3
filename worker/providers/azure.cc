#include "worker/providers/azure.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "common/base/utf8.h"
#include "worker/providers/transport/blame.h"
#include "worker/providers/transport/direct.h"
#include "worker/providers/transport/wire.h"

namespace audiogen::azure {
namespace {

constexpr std::array<ProviderOption, 3> kOptions = {{
    {.name = "language",
     .fallback = "en-US",
     .about = "the language of the document around the text (BCP 47); the voice says what is "
              "spoken"},
    {.name = "speed",
     .fallback = "native",
     .about = "who makes it faster or slower: the model (`native`; not of `DragonHD` voices, which "
              "ignore it), or we by stretching what it sends, which is exact (`ours`)",
     .choices = kNativeOrOurs},
    {.name = "pitch",
     .fallback = "native",
     .about = "the same of the pitch; the model goes from -12 to 7 semitones, we do the rest",
     .choices = kNativeOrOurs},
}};
// "Within 0.5 to 1.5 times the original": an octave down, a fifth up.
constexpr Range kPitch{-12.0, 7.0};

// "Neural HD" voices, en-US-Ava:DragonHDLatestNeural say, have no <prosody>.
bool takes_prosody(std::string_view voice) {
  return voice.find(":DragonHD") == std::string_view::npos;
}

bool makes(const ProviderEntry& entry, std::string_view option, std::string_view voice) {
  return is_native(entry, option) && takes_prosody(voice);
}

double speed_for(const ProviderEntry& entry, const GenerationRequest& request) {
  return makes(entry, "speed", voice_of(entry, request)) ? request.speed : 1.0;
}

double pitch_for(const ProviderEntry& entry, const GenerationRequest& request) {
  return makes(entry, "pitch", voice_of(entry, request))
             ? std::clamp(request.pitch, kPitch.low, kPitch.high)
             : 0.0;
}

struct Format {
  int rate;
  const char* name;
  AudioType type;
};
// 16 kHz comes without a header alone; 32 is none of theirs.
constexpr std::array<Format, 5> kFormats = {
    {{8000, "riff-8khz-16bit-mono-pcm", AudioType::kWav},
     {16000, "raw-16khz-16bit-mono-pcm", AudioType::kPcmS16Le},
     {24000, "riff-24khz-16bit-mono-pcm", AudioType::kWav},
     {44100, "riff-44100hz-16bit-mono-pcm", AudioType::kWav},
     {48000, "riff-48khz-16bit-mono-pcm", AudioType::kWav}}};

const Format& format_for(const GenerationRequest& request) {
  const auto* const at = std::find_if(kFormats.begin(), kFormats.end(), [&](const Format& one) {
    return one.rate == request.sample_rate;
  });
  return at == kFormats.end() ? kFormats.back() : *at;
}

// What XML 1.0 has a place for: no control characters, and of what is beyond ASCII all but two.
bool is_xml(std::string_view sequence) {
  if (sequence.size() == 1) {
    const char c = sequence.front();
    return c >= ' ' || c == '\t' || c == '\n' || c == '\r';
  }
  const char32_t c = utf8_code_point(sequence);
  return c != 0xFFFE && c != 0xFFFF;
}

// Text as XML has it, between tags and in attributes: nothing of it can be taken for markup.
std::string xml_of(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  while (!text.empty()) {
    const std::size_t length = std::max<std::size_t>(1, utf8_sequence_length(text));
    const std::string_view one = text.substr(0, length);
    switch (one.front()) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&apos;";
        break;
      default:
        out += is_xml(one) ? one : std::string_view(" ");
    }
    text.remove_prefix(length);
  }
  return out;
}

std::string signed_number(double value) {
  return (value < 0 ? "" : "+") + wire::number(value);
}

// The attributes of <prosody>; "": it is not needed.
std::string shape_of(const ProviderEntry& entry, const GenerationRequest& asked) {
  std::string shape;
  if (const double speed = speed_for(entry, asked); speed != 1.0) {
    shape += " rate=\"" + wire::number(speed) + "\"";
  }
  if (const double pitch = pitch_for(entry, asked); pitch != 0.0) {
    shape += " pitch=\"" + signed_number(pitch) + "st\"";
  }
  return shape;
}

std::string shaped(const std::string& shape, const std::string& text) {
  return shape.empty() ? text : "<prosody" + shape + ">" + text + "</prosody>";
}

constexpr bool is_han(char32_t c) {
  return (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x4E00 && c <= 0x9FFF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x20000 && c <= 0x3FFFF);
}

// Chinese characters, Japan's and Korea's among them, count as two; all markup but <speak> and
// <voice> counts by its length. No answer tells.
Thousandths billed_for(const ProviderEntry& entry, const GenerationRequest& asked) {
  auto count = static_cast<Thousandths>(shaped(shape_of(entry, asked), "").size());
  for (std::string_view text = asked.prompt; !text.empty();) {
    const std::size_t length = std::max<std::size_t>(1, utf8_sequence_length(text));
    count += length > 1 && is_han(utf8_code_point(text.substr(0, length))) ? 2 : 1;
    text.remove_prefix(length);
  }
  return count;  // Of a thousand characters.
}

std::string ssml(const ProviderEntry& entry, const GenerationRequest& asked) {
  const std::string text = xml_of(asked.prompt);
  return "<speak version=\"1.0\" xmlns=\"http://www.w3.org/2001/10/synthesis\" xml:lang=\"" +
         xml_of(entry.option("language")) + "\"><voice name=\"" + xml_of(voice_of(entry, asked)) +
         "\">" + shaped(shape_of(entry, asked), text) + "</voice></speak>";
}

void promise(const ProviderEntry& entry, Capabilities& able) {
  const auto any = [&](std::string_view option) {
    return std::any_of(entry.voices.begin(), entry.voices.end(), [&](const auto& voice) {
      return makes(entry, option, voice.second);
    });
  };
  if (any("speed")) {
    able.native_speed = kSpeedRange;
  }
  if (any("pitch")) {
    able.native_pitch = kPitch;
  }
}

}  // namespace

http::ClientRequest build(const ProviderEntry& entry, const ProviderRequest& request) {
  const GenerationRequest& asked = *request.request;
  auto out = post_json(entry, entry.base_url + "/cognitiveservices/v1", ssml(entry, asked));
  out.headers = {"Content-Type: application/ssml+xml",
                 std::string("X-Microsoft-OutputFormat: ") + format_for(asked).name,
                 "Ocp-Apim-Subscription-Key: " + entry.api_key};
  return out;
}

Result<Audio, ProviderFault> read(const ProviderEntry& entry,
                                  const GenerationRequest& request,
                                  http::ClientResponse response) {
  if (response.status != 200) {
    // The reason is a sentence, if anything.
    const Fault fault = blame::is_refusal(response.status)
                            ? blame::by_words(response.body, request.prompt)
                            : wire::fault_of_status(response.status);
    return wire::fault_with_id(fault, response, "", "");
  }
  if (response.body.empty()) {
    // By design: the voice does not speak the language of the text, or there is nothing to say.
    ProviderFault fault = wire::no_audio(response, "silent", "");
    fault.fault = Fault::kBrokenByInput;
    fault.billed = billed_for(entry, request);
    return fault;
  }
  const std::string type(response.header("content-type"));
  const Format& format = format_for(request);
  auto audio = wire::audio_of(std::move(response.body), type, format.type, format.rate);
  if (audio) {
    audio->speed_applied = speed_for(entry, request);
    audio->pitch_applied = pitch_for(entry, request);
  }
  return wire::billed(std::move(audio), billed_for(entry, request));
}

constinit const ProviderKind kKind = {
    .name = "azure",
    .about = "Azure AI Speech; the region is in `base_url`",
    .base_url = "https://eastus.tts.speech.microsoft.com",
    .needs_key = true,
    .has_model = false,
    .reports = PriceUnit::kThousandCharacters,
    .options = kOptions,
    .check = [](ProviderEntry& entry,
                const Complain& complain) { require_voices(entry, complain); },
    .promise = &promise,
    .format = DirectFormat{&build, &read},
};

}  // namespace audiogen::azure
