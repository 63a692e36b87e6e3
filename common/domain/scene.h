// Scene or narration: whether a prompt is to be made, or to be read aloud.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace audiogen {

// Does the prompt mark itself as a scene? By cues alone, never by what its sentences mean: words in
// square brackets ("[rain on a tin roof]"), a line that is in parentheses as a whole ("(a door
// creaks)"), or one of the names of cues.h in parentheses of its own, which is a sound wherever it
// stands ("Somebody came. (Door)"). What else looks like that is none: numbers in brackets, an
// omission ("[…]"), a link ("[here](https://…)"), an index ("a[i]"), any other parenthesis within a
// line. The full-width forms count as the others. `prompt` is valid UTF-8.
bool is_scene(std::string_view prompt);
// The same of a request: its voice may ask for a scene as well (kSceneVoice).
bool is_scene(std::string_view prompt, const std::optional<std::string>& voice);
// Can whoever reads aloud, and makes sounds by their names alone (cues.h), make all of such a
// request? Each cue is one of those names; where the voice asks for a scene, there is nothing else.
bool is_scene_of_names(std::string_view prompt, const std::optional<std::string>& voice);

}  // namespace audiogen
