#include "worker/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "base/atomic_file.h"
#include "base/json_field.h"
#include "base/json_text.h"
#include "report/terminal_text.h"

namespace heddle {
namespace {

bool printed = false;

Error CannotPrint() {
  Error error = SystemError("standard output", "write");
  error.hint = "what it goes to is full or closed; give it a file with room";
  return error;
}

// As it is, and flushed.
Status PrintData(const std::string& text) {
  printed = true;
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!written || std::fflush(stdout) != 0) return CannotPrint();
  return Ok();
}

}  // namespace

Status PrepareOutput() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of whoever writes it
  const bool closed = fcntl(STDOUT_FILENO, F_GETFD) < 0;
  const Error error = closed ? CannotPrint() : Error{};
  // Open() takes the lowest number that is free: whatever is closed becomes something that cannot
  // be written to.
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) < 0 && open("/dev/null", O_RDONLY) < 0) break;
  }
  if (closed) return error;
  return Ok();
}

Status Print(const std::string& text) {
  return PrintData(ForTerminal(text, TerminalKindOf(STDOUT_FILENO)));
}

void SayText(const std::string& text) {
  std::fputs(ForTerminal(text, TerminalKindOf(STDERR_FILENO)).c_str(), stderr);
}

void ClearLine() { std::fputs("\r\033[K", stderr); }

Status PrintJson(const Json& json) {
  const bool ascii = TerminalKindOf(STDOUT_FILENO).charset == Charset::kAscii;
  return PrintData(JsonText(json, 2, ascii) + "\n");
}

bool HasPrinted() { return printed; }
void NotePrinted() { printed = true; }

}  // namespace heddle
