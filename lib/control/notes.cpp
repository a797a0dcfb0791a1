#include "lib/control/notes.h"

#include <utility>

namespace sk::control {

void Notes::take(Note note) {
  if (const auto before = texts_.find(note.name); before != texts_.end()) {
    bytes_ -= before->second.size();
    texts_.erase(before);
  }
  if (!note.kept || texts_.size() >= kNamesMax) return;
  if (bytes_ + note.text.size() > kBytesMax) note.text.clear();
  bytes_ += note.text.size();
  texts_.emplace(std::move(note.name), std::move(note.text));
}

std::vector<Event> Notes::replay() const {
  std::vector<Event> events;
  for (const auto& [name, text] : texts_) {
    Event event;
    event.kind = SK_EVENT_NOTE;
    event.tag = name;
    event.text = text;
    events.push_back(std::move(event));
  }
  return events;
}

}  // namespace sk::control
