// Media files made by an independent tool, for the tests of decoders.
#pragma once

#include <string>

namespace audiogen::test {

// What `command` writes to its standard output; a failing command fails the test.
std::string output_of(const std::string& command);

// `seconds` of a 440 Hz tone at 24 kHz, mono unless the options say otherwise, as ffmpeg writes it
// with these output options, which name the format: "-c:a flac -f flac". Through a file, so that
// headers are complete.
std::string tone_file(double seconds, const std::string& options);

// The same through a pipe, as a server would stream it.
std::string tone_stream(double seconds, const std::string& options);

// One frame of a test picture: "640x480", "-c:v png -f image2".
std::string picture_file(const std::string& size, const std::string& options);

}  // namespace audiogen::test
