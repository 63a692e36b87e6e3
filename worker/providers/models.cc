#include "worker/providers/models.h"

#include <algorithm>
#include <utility>

#include <rapidjson/document.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include "common/base/ascii.h"
#include "worker/providers/transport/blame.h"
#include "worker/providers/transport/wire.h"

namespace audiogen::models {

bool sends_bytes(const ProviderEntry& entry) {
  return entry.option(kReferences.name) == "bytes";
}

void promise(const ProviderEntry& entry, Capabilities& able) {
  able.audio_references = !entry.option("audio_references_member").empty();
  able.image = !entry.option("image_member").empty();
  able.reference_bytes = sends_bytes(entry);
  if (!entry.option("speed_member").empty()) {
    able.native_speed = kSpeedRange;
  }
  if (!entry.option("pitch_member").empty()) {
    able.native_pitch = kPitchRange;
  }
}

bool is_path(std::string_view model, std::string_view extra) {
  return std::all_of(model.begin(),
                     model.end(),
                     [extra](char c) {
                       return ascii::is_alnum(c) ||
                              std::string_view("-_./").find(c) != std::string_view::npos ||
                              extra.find(c) != std::string_view::npos;
                     }) &&
         !model.starts_with('/') && !model.ends_with('/') &&
         model.find("..") == std::string_view::npos && model.find("//") == std::string_view::npos &&
         model.find('/') != std::string_view::npos;
}

std::string input(const ProviderEntry& entry, const ProviderRequest& asked) {
  const GenerationRequest& request = *asked.request;
  rapidjson::Document out;
  const std::string& fixed = entry.option("input");
  if (fixed.empty()) {
    out.SetObject();
  } else {
    out.Parse(fixed.c_str());
  }
  auto& memory = out.GetAllocator();
  const auto text = [&memory](const std::string& value) {
    return rapidjson::Value(value.data(), static_cast<rapidjson::SizeType>(value.size()), memory);
  };
  const auto set = [&](const std::string& name, rapidjson::Value value) {
    out.RemoveMember(name.c_str());
    out.AddMember(text(name), value, memory);
  };
  set(entry.option("prompt_member"), text(request.prompt));
  if (!entry.voices.empty()) {
    set(entry.option("voice_member"), text(voice_of(entry, request)));
  }
  if (!request.audio_references.empty()) {
    rapidjson::Value urls(rapidjson::kArrayType);
    for (std::size_t i = 0; i < request.audio_references.size(); ++i) {
      urls.PushBack(text(sends_bytes(entry) ? wire::data_uri(asked.references->sounds[i])
                                            : request.audio_references[i]),
                    memory);
    }
    set(entry.option("audio_references_member"), std::move(urls));
  }
  if (request.image_url) {
    set(entry.option("image_member"),
        text(sends_bytes(entry) ? wire::data_uri(*asked.references->image) : *request.image_url));
  }
  const auto set_number = [&](const char* option, auto number, auto normal) {
    if (const std::string& name = entry.option(option); !name.empty() && number != normal) {
      set(name, rapidjson::Value(number));
    }
  };
  set_number("speed_member", request.speed, 1.0);
  set_number("pitch_member", request.pitch, 0.0);
  set_number("rate_member", request.sample_rate, 0);
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer> writer(buffer);
  out.Accept(writer);
  return buffer.GetString();
}

std::string file_of(const ProviderEntry& entry, const rapidjson::Value& result) {
  const auto file_in = [&result](const char* name) {
    const rapidjson::Value* const file = wire::member(result, name);
    return std::string(file != nullptr && file->IsObject() ? wire::text_of(*file, "url")
                                                           : wire::text_of(result, name));
  };
  if (const std::string& name = entry.option("audio_member"); !name.empty()) {
    return file_in(name.c_str());
  }
  for (const char* const name : {"audio", "audio_file", "audio_url", "audio_out"}) {
    if (std::string url = file_in(name); !url.empty()) {
      return url;
    }
  }
  return "";
}

Fault blame(const ProviderEntry& entry, std::string_view input_name) {
  return audiogen::blame::by_name(input_name,
                                  {entry.option("prompt_member"),
                                   entry.option("audio_references_member"),
                                   entry.option("image_member"),
                                   entry.option("speed_member"),
                                   entry.option("pitch_member"),
                                   entry.option("rate_member")});
}

void Format::mark_applied(const ProviderEntry& entry,
                          const GenerationRequest& request,
                          Audio& audio) const {
  if (!entry.option("speed_member").empty()) {
    audio.speed_applied = request.speed;
  }
  if (!entry.option("pitch_member").empty()) {
    audio.pitch_applied = request.pitch;
  }
}

}  // namespace audiogen::models
