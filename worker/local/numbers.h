// What is said of the signs around numbers, where an engine leaves them out or says them in
// another order. Pure.
#pragma once

#include <string>
#include <string_view>

namespace audiogen {

// Cleaned English text for flite: fractions ("2 ½" is "2 and 1 half"), sums of money ("£5 million"
// is "5 million pounds"), and a dash before a digit as a hyphen, which is read as "minus" or "to".
std::string with_english_numbers_said(std::string_view text);

// Cleaned text for the espeak-ng voice `voice`: its language's words for "minus" and for ½, ¼ and ¾
// where 1.51 has none of its own. It left the sign out, and ¾, and said ½ in English.
std::string with_numbers_said(std::string_view text, std::string_view voice);

}  // namespace audiogen
