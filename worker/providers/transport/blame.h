// Whose fault a refused request is: the operator's, whose voice, model and options it carries, or
// the client's, whose text and references it carries (../README.md, "Whose fault a refusal is").
// Pure functions. What they read goes nowhere else.
#pragma once

#include <initializer_list>
#include <string_view>

#include "worker/chain/provider.h"

namespace audiogen::blame {

// Whether a status says that the request was not liked (400, 422), and nothing else.
bool is_refusal(int status);

// Whether an answer is a page of markup, as a gateway's in front of the provider, and not the
// provider's own. With 403 that may be a firewall which a text has displeased (kBrokenByInput).
bool is_page(std::string_view body);

// By the name of what the provider does not like, a path in the request ("voice_settings.speed",
// "contents[0].parts[0].text"). kUnsupportedInput where a part of it is one of `of_client`, the
// members that carry what is the client's; else kMisconfigured; "": kBrokenByInput, nothing is
// named.
Fault by_name(std::string_view name, std::initializer_list<std::string_view> of_client);

// By words: a code ("voice_not_found"), or a sentence. kMisconfigured where they name the voice,
// the model or the like, kUnsupportedInput where they name the text, the speed or the like.
// kBrokenByInput where they name nothing, or both: the next provider is asked, and it counts
// neither against this one, whose other callers may not wait for a text, nor for it. A word that is
// in the client's text says nothing, because the provider may be quoting it.
Fault by_words(std::string_view words, std::string_view text_of_client);

}  // namespace audiogen::blame
