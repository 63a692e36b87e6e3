// Kinds that serve any model of anybody: what the model calls its inputs is the operator's to say.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include <rapidjson/document.h>

#include "worker/providers/kind.h"
#include "worker/providers/transport/polled.h"

namespace audiogen::models {

inline constexpr std::array<std::string_view, 2> kReferenceForms = {"url", "bytes"};
inline constexpr ProviderOption kReferences = {
    .name = "references",
    .fallback = "url",
    .about =
        "sends the addresses of references and images (`url`), or the files we fetched "
        "(`bytes`)",
    .choices = kReferenceForms};
inline constexpr std::array<std::string_view, 2> kResultAddresses = {"public", "any"};
inline constexpr std::array<ProviderOption, 11> kOptions = {{
    {.name = "prompt_member",
     .fallback = "prompt",
     .about = "what the model calls its input of the text"},
    {.name = "voice_member",
     .fallback = "voice",
     .about = "the same of the voice, which is sent where the entry has `voices`"},
    {.name = "audio_references_member",
     .about = "the same of the list of audio references; without it the model takes none"},
    {.name = "image_member", .about = "the same of the image; without it the model takes none"},
    {.name = "speed_member",
     .about = "the same of the speed, times the normal one; without it we stretch what the model "
              "sends"},
    {.name = "pitch_member",
     .about = "the same of the pitch, in semitones; without it we shift what the model sends"},
    {.name = "rate_member",
     .about = "the same of the sample rate, in Hz; without it we resample what the model sends"},
    {.name = "audio_member",
     .about = "what the model calls the file in its result, an address or an object with `url`; "
              "without it `audio`, `audio_file`, `audio_url` or `audio_out`"},
    {.name = "input",
     .about = "members of the model's input that are sent every time",
     .object = true},
    kReferences,
    {.name = "result_address",
     .fallback = "public",
     .about = "where files of results may be fetched: `public`, or `any` for a provider in the "
              "house",
     .choices = kResultAddresses},
}};

// "references": "bytes" sends the files we fetched.
bool sends_bytes(const ProviderEntry& entry);

// What the model has inputs for.
void promise(const ProviderEntry& entry, Capabilities& able);

// The parts of its name go into an address: plain ones, "<owner>/<name>", with `extra` characters.
bool is_path(std::string_view model, std::string_view extra);

// The model's input as JSON: the entry's fixed members, then the prompt, voice, references and
// shape under the names the entry gives them.
std::string input(const ProviderEntry& entry, const ProviderRequest& request);

// Whose fault it is that the model refuses its input of that name, "voice" (transport/blame.h): the
// text, the references and the shape are the client's, the rest the operator's.
Fault blame(const ProviderEntry& entry, std::string_view input_name);

// Where the file of a result is; "": it has none under a name that it may have.
std::string file_of(const ProviderEntry& entry, const rapidjson::Value& result);

// What the formats of such kinds have in common.
class Format : public PolledFormat {
 public:
  // By the members that the model has. The volume is always ours, behind the limiter.
  void mark_applied(const ProviderEntry& entry,
                    const GenerationRequest& request,
                    Audio& audio) const final;
};

}  // namespace audiogen::models
