#include "program/proof/value_parts.h"

#include <algorithm>

namespace heddle {
namespace {

// The cells of a box that its parts' borders make.
ValueParts CellsOf(BoxTable& boxes, BoxId within, const ValueParts& parts) {
  const Slice whole = boxes[within];
  std::vector<std::vector<int64_t>> borders;
  for (size_t axis = 0; axis < whole.size(); ++axis) {
    std::vector<int64_t> at = {whole[axis].begin, whole[axis].end};
    for (const ValuePart& part : parts) {
      for (const int64_t border : {boxes[part.box][axis].begin, boxes[part.box][axis].end}) {
        if (border > whole[axis].begin && border < whole[axis].end) at.push_back(border);
      }
    }
    std::sort(at.begin(), at.end());
    at.erase(std::unique(at.begin(), at.end()), at.end());
    borders.push_back(std::move(at));
  }
  ValueParts cells;
  std::vector<size_t> place(whole.size(), 0);
  for (bool more = true; more;) {
    Slice cell;
    for (size_t axis = 0; axis < whole.size(); ++axis) {
      cell.push_back({borders[axis][place[axis]], borders[axis][place[axis] + 1]});
    }
    cells.push_back({boxes.Of(cell), {}});
    more = false;
    for (size_t axis = whole.size(); axis-- > 0 && !more;) {
      more = ++place[axis] + 1 < borders[axis].size();
      if (!more) place[axis] = 0;
    }
  }
  return cells;
}

}  // namespace

ValueParts Overlay(BoxTable& boxes, BoxId within, const ValueParts& parts) {
  if (ElementsOf(boxes[within]) == 0) return {};
  const bool alike = std::all_of(parts.begin(), parts.end(),
                                 [&](const ValuePart& part) { return part.box == within; });
  ValueParts cells = alike ? ValueParts{{within, {}}} : CellsOf(boxes, within, parts);
  for (ValuePart& cell : cells) {
    for (const ValuePart& part : parts) {
      if (!alike && boxes.Intersection(cell.box, part.box) != cell.box) continue;
      cell.terms.insert(cell.terms.end(), part.terms.begin(), part.terms.end());
    }
    TermTable::Normalise(cell.terms);
  }
  JoinEqual(boxes, cells);
  return cells;
}

ValueParts Restrict(BoxTable& boxes, BoxId within, const ValueParts& parts) {
  ValueParts inside;
  for (const ValuePart& part : parts) {
    const BoxId common = boxes.Intersection(part.box, within);
    if (common != BoxTable::kNothing) inside.push_back({common, part.terms});
  }
  JoinEqual(boxes, inside);
  return inside;
}

bool Fill(const BoxTable& boxes, BoxId box, const ValueParts& parts) {
  if (parts.size() == 1 && parts[0].box == box) return true;
  int64_t elements = 0;
  for (const ValuePart& part : parts) {
    if (!Contains(boxes[box], boxes[part.box])) return false;
    elements += ElementsOf(boxes[part.box]);
  }
  return elements == ElementsOf(boxes[box]);
}

void JoinEqual(BoxTable& boxes, ValueParts& parts) {
  if (parts.size() < 2) return;
  const bool equal = std::all_of(parts.begin(), parts.end(), [&](const ValuePart& part) {
    return part.terms == parts[0].terms;
  });
  const BoxId hull = equal ? HullOf(boxes, parts) : BoxTable::kNothing;
  if (equal && Fill(boxes, hull, parts)) {  // however they lie
    parts[0].box = hull;
    parts.resize(1);
    return;
  }
  const auto joined = [&](const ValuePart& a, const ValuePart& b) {
    const Slice &x = boxes[a.box], &y = boxes[b.box];
    int differ = -1;
    for (size_t axis = 0; axis < x.size(); ++axis) {
      if (x[axis] == y[axis]) continue;
      if (differ >= 0) return BoxTable::kNothing;
      differ = static_cast<int>(axis);
    }
    if (differ < 0) return BoxTable::kNothing;
    const auto axis = static_cast<size_t>(differ);
    Slice both = x;
    both[axis] = {std::min(x[axis].begin, y[axis].begin), std::max(x[axis].end, y[axis].end)};
    const bool touch = x[axis].end == y[axis].begin || y[axis].end == x[axis].begin;
    return touch && a.terms == b.terms ? boxes.Of(both) : BoxTable::kNothing;
  };
  for (bool again = parts.size() > 1; again;) {
    again = false;
    for (size_t a = 0; a < parts.size() && !again; ++a) {
      for (size_t b = a + 1; b < parts.size() && !again; ++b) {
        const BoxId both = joined(parts[a], parts[b]);
        if (both == BoxTable::kNothing) continue;
        parts[a].box = both;
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(b));
        again = parts.size() > 1;
      }
    }
  }
}

BoxId HullOf(BoxTable& boxes, const ValueParts& parts) {
  Slice hull = boxes[parts[0].box];
  for (const ValuePart& part : parts) {
    const Slice& slice = boxes[part.box];
    for (size_t axis = 0; axis < hull.size(); ++axis) {
      hull[axis].begin = std::min(hull[axis].begin, slice[axis].begin);
      hull[axis].end = std::max(hull[axis].end, slice[axis].end);
    }
  }
  return boxes.Of(hull);
}

}  // namespace heddle
