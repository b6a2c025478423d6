// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Roles and tensors stand in columns in the order of the data; a line is a region that a role reads
// or writes, and a dashed one goes to other ranks. Tensors with a signal show its cells.
#include "backend/driver/explain/draw_regions.h"

#include "backend/driver/compile.h"
#include "backend/driver/explain/svg.h"
#include "backend/driver/output/output_file.h"
#include "frontend/ast/ast_visitor.h"
#include "frontend/ast/source_printer.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Support/Unicode.h"

namespace dtile::driver {

namespace {

constexpr unsigned kCharacter = 7;
constexpr unsigned kLine = 17;
constexpr unsigned kMargin = 12;
constexpr unsigned kGap = 40;
constexpr unsigned kCell = 11;
/// Cells that are drawn along a dimension of a signal, of however many there are.
constexpr unsigned kCells = 4;

/// The name of a tensor in `x`, `x@peer`, `x[…]` and `x@peer[…]`.
struct Region {
  llvm::StringRef tensor;
  bool isRemote = false;
};
Region regionOf(const ast::Expr *e) {
  Region region;
  if (const auto *after = llvm::dyn_cast_or_null<ast::AfterExpr>(e))
    e = after->value;
  if (const auto *index = llvm::dyn_cast_or_null<ast::IndexExpr>(e))
    e = index->base;
  if (const auto *remote = llvm::dyn_cast_or_null<ast::RemoteExpr>(e)) {
    region.isRemote = true;
    e = remote->base;
  }
  if (const auto *name = llvm::dyn_cast_or_null<ast::NameExpr>(e))
    region.tensor = name->name;
  return region;
}

/// A box of the picture, of a role or a tensor.
struct Box {
  std::vector<std::string> lines;
  bool isRole = false;
  unsigned column = 0;
  /// Dimensions of the tensor's signal.
  unsigned cells = 0;
  unsigned x = 0;
  unsigned y = 0;
  unsigned width = 0;
  unsigned height = 0;
};

struct Edge {
  size_t role;
  size_t tensor;
  std::string text;
  bool isWrite;
  bool isRemote;
};

/// Collects what the roles of a kernel do.
class Picture : public ast::Walker<Picture> {
public:
  using Walker::visit;

  explicit Picture(const ast::KernelDecl &kernel) : title(kernel.name.name) {
    for (const ast::Param &param : kernel.params)
      addTensor(param);
    for (const ast::Param &param : kernel.params)
      if (isSignal(param))
        addCells(param);
    for (const ast::Role *role : kernel.roles)
      for (const ast::Role *part = role; part != nullptr; part = part->whenAll)
        addRole(*role, *part);
    arrange();
  }

  bool visit(const ast::CallExpr &e) {
    const auto *callee = llvm::dyn_cast<ast::NameExpr>(e.callee);
    const llvm::StringRef name = callee ? callee->name : llvm::StringRef();
    const bool moves = name == "put" || name == "get" || name == "reduce_add";
    if (moves && e.args.size() >= 2) {
      walk(e.args[0].value);
      access(e.args[1].value, /*isWrite=*/true);
      return false;
    }
    if ((name == "wait" || name == "notify") && !e.args.empty()) {
      const std::string text = name.str() + " " + textOf(e.args[0].value);
      std::vector<std::string> &lines = boxes[role_].lines;
      if (!llvm::is_contained(lines, text))
        lines.push_back(text);
      return false;
    }
    return true;
  }
  bool visit(const ast::AssignStmt &s) {
    walk(s.value);
    access(s.target, /*isWrite=*/true);
    return false;
  }
  bool visit(const ast::IndexExpr &e) { return !access(&e, /*isWrite=*/false); }
  bool visit(const ast::NameExpr &e) { return !access(&e, /*isWrite=*/false); }

  std::string title;
  std::vector<Box> boxes;
  std::vector<Edge> edges;
  unsigned width = 0;
  unsigned height = 0;

private:
  static bool isSignal(const ast::Param &param) {
    return param.type != nullptr && param.type->name.name == "signal";
  }

  void addTensor(const ast::Param &param) {
    if (param.mode == ast::ParamMode::Value || param.type == nullptr || isSignal(param))
      return;
    std::string shape;
    for (const ast::Expr *size : param.type->shape)
      shape += (shape.empty() ? "" : ", ") + textOf(size);
    Box box;
    box.lines = {
        param.name.name.str(),
        (ast::spelling(param.mode) + " " + param.type->name.name + "[" + shape + "]").str()};
    numbers_[param.name.name] = boxes.size();
    boxes.push_back(std::move(box));
  }

  // A signal of a joined kernel is called after its tensor.
  void addCells(const ast::Param &param) {
    llvm::StringRef name = param.name.name;
    if (!name.consume_back("_ready"))
      (void)name.consume_back("_offered");
    const auto found = numbers_.find(name);
    if (found == numbers_.end())
      return;
    std::string shape;
    for (const ast::Expr *size : param.type->shape)
      shape += (shape.empty() ? "" : ", ") + textOf(size);
    Box &box = boxes[found->second];
    box.lines.push_back(param.name.name.str() + "[" + shape + "]");
    box.cells = std::max<unsigned>(box.cells, std::min<size_t>(param.type->shape.size(), 2));
  }

  void addRole(const ast::Role &role, const ast::Role &part) {
    Box box;
    box.isRole = true;
    const bool isJoin = &role != &part;
    box.lines = {role.name.name.empty() ? title : role.name.name.str()};
    if (isJoin)
      box.lines.front() += ", when all";
    if (part.over != nullptr)
      for (const ast::IterDim &dim : part.over->dims)
        box.lines.push_back(dim.name.name.str() + " in " + textOf(dim.domain) +
                            (dim.step ? " by " + textOf(dim.step) : ""));
    role_ = boxes.size();
    boxes.push_back(std::move(box));
    walk(static_cast<const ast::Stmt *>(part.body));
  }

  // Whether it is a tensor's; its indices may read others.
  bool access(const ast::Expr *e, bool isWrite) {
    const Region region = regionOf(e);
    const auto found = numbers_.find(region.tensor);
    if (region.tensor.empty() || found == numbers_.end())
      return false;
    Edge edge{role_, found->second, textOf(e), isWrite, region.isRemote};
    if (llvm::none_of(edges, [&](const Edge &other) {
          return other.role == edge.role && other.text == edge.text && other.isWrite == isWrite;
        }))
      edges.push_back(std::move(edge));
    if (const auto *index = llvm::dyn_cast<ast::IndexExpr>(e))
      for (const ast::Expr *one : index->indices)
        walk(one);
    return true;
  }

  // ---- Places ----

  // Columns in the order of the data: a role stands after all that it reads and others write. Roles
  // are in that order, so that what goes around a ring is left out.
  void arrange() {
    for (size_t role = 0; role < boxes.size(); ++role) {
      if (!boxes[role].isRole)
        continue;
      unsigned column = 1;
      for (const Edge &edge : edges)
        if (edge.role == role && !edge.isWrite && !writes(role, edge.tensor))
          column = std::max(column, boxes[edge.tensor].column + 1);
      boxes[role].column = column;
      for (const Edge &edge : edges)
        if (edge.role == role && edge.isWrite)
          boxes[edge.tensor].column = std::max(boxes[edge.tensor].column, column + 1);
    }
    for (Box &box : boxes) {
      size_t longest = 0;
      for (const std::string &line : box.lines)
        longest = std::max(longest, size_t(llvm::sys::unicode::columnWidthUTF8(line)));
      box.width = unsigned(longest) * kCharacter + 2 * kMargin;
      box.height = unsigned(box.lines.size()) * kLine + kMargin;
      if (box.cells > 0)
        box.height += (box.cells > 1 ? kCells : 1) * kCell + kMargin / 2;
    }
    place();
  }

  bool writes(size_t role, size_t tensor) const {
    return llvm::any_of(edges, [&](const Edge &edge) {
      return edge.role == role && edge.tensor == tensor && edge.isWrite;
    });
  }

  // The width of a gap is that of the longest text on its lines.
  void place() {
    unsigned last = 0;
    for (const Box &box : boxes)
      last = std::max(last, box.column);
    unsigned x = kMargin;
    for (unsigned column = 0; column <= last; ++column) {
      unsigned y = 2 * kLine + kMargin;
      unsigned widest = 0;
      for (Box &box : boxes) {
        if (box.column != column)
          continue;
        box.x = x;
        box.y = y;
        y += box.height + kGap;
        widest = std::max(widest, box.width);
        height = std::max(height, y);
      }
      size_t longest = 0;
      for (const Edge &edge : edges)
        if (std::min(boxes[edge.tensor].column, boxes[edge.role].column) == column)
          longest = std::max(longest, edge.text.size());
      x += widest + kGap + unsigned(longest) * kCharacter;
    }
    width = x;
  }

  llvm::StringMap<size_t> numbers_;
  size_t role_ = 0;
};

class Drawing {
public:
  Drawing(const Picture &picture, unsigned top, llvm::raw_ostream &os)
      : picture_(picture), top_(top), os_(os) {}

  void run() {
    text(kMargin, kLine, picture_.title, "class=\"t\"");
    llvm::DenseMap<std::pair<size_t, size_t>, unsigned> lines;
    for (const Edge &edge : picture_.edges)
      draw(edge, lines[{edge.role, edge.tensor}]++);
    for (const Box &box : picture_.boxes)
      draw(box);
  }

private:
  void text(unsigned x, unsigned y, llvm::StringRef words, llvm::StringRef how = "") {
    os_ << "<text x=\"" << x << "\" y=\"" << top_ + y << "\" " << how << ">" << svgText(words)
        << "</text>\n";
  }

  void draw(const Box &box) {
    os_ << "<rect class=\"" << (box.isRole ? "r" : "b") << "\" x=\"" << box.x << "\" y=\""
        << top_ + box.y << "\" width=\"" << box.width << "\" height=\"" << box.height << "\" rx=\""
        << (box.isRole ? 10 : 0) << "\"/>\n";
    unsigned y = box.y + kLine;
    for (const auto &[i, line] : llvm::enumerate(box.lines)) {
      text(box.x + kMargin, y, line, i == 0 ? "class=\"n\"" : "");
      y += kLine;
    }
    const unsigned rows = box.cells > 1 ? kCells : 1;
    for (unsigned row = 0; box.cells > 0 && row < rows; ++row)
      for (unsigned column = 0; column < kCells; ++column)
        os_ << "<rect class=\"c\" x=\"" << box.x + kMargin + column * kCell << "\" y=\""
            << top_ + y - kMargin + row * kCell << "\" width=\"" << kCell << "\" height=\"" << kCell
            << "\"/>\n";
  }

  // From the right side of what comes first to the left side of the other.
  void draw(const Edge &edge, unsigned number) {
    const Box &role = picture_.boxes[edge.role];
    const Box &tensor = picture_.boxes[edge.tensor];
    const Box &from = edge.isWrite ? role : tensor;
    const Box &to = edge.isWrite ? tensor : role;
    const bool isBack = to.column <= from.column;
    const unsigned x1 = isBack ? from.x : from.x + from.width;
    const unsigned x2 = isBack ? to.x + to.width : to.x;
    const unsigned y1 = from.y + kLine + number * kLine;
    const unsigned y2 = to.y + kLine + number * kLine;
    os_ << "<line class=\"" << (edge.isRemote ? "p" : "l") << "\" x1=\"" << x1 << "\" y1=\""
        << top_ + y1 << "\" x2=\"" << x2 << "\" y2=\"" << top_ + y2
        << "\" marker-end=\"url(#a)\"/>\n";
    const unsigned left = std::min(x1, x2);
    const unsigned space = std::max(x1, x2) - left;
    const unsigned length = unsigned(edge.text.size()) * kCharacter;
    text(left + (space > length ? (space - length) / 2 : 0), (y1 + y2) / 2 - 3, edge.text,
         edge.isRemote ? "class=\"o\"" : "class=\"e\"");
  }

  const Picture &picture_;
  unsigned top_;
  llvm::raw_ostream &os_;
};

constexpr llvm::StringRef kStyle =
    "<style>text{font:12px monospace;fill:#222}.t{font:bold 15px sans-serif}.n{font-weight:bold}"
    ".e{fill:#555}.o{fill:#a02020}.r{fill:#e8f0fe;stroke:#4060a0}.b{fill:#fff8e0;stroke:#a08030}"
    ".c{fill:#fff;stroke:#a08030}.l{stroke:#888}.p{stroke:#a02020;stroke-dasharray:5 3}</style>\n"
    "<defs><marker id=\"a\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" "
    "markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" "
    "fill=\"#666\"/></marker></defs>\n";

} // namespace

void drawRegions(Session &session, llvm::StringRef path, llvm::StringRef svg) {
  const auto program = analyzeFile(session, path);
  if (!program)
    return;
  std::vector<Picture> pictures;
  unsigned width = 0;
  unsigned height = 0;
  for (const ast::KernelDecl *kernel : selectKernels(session, *program)) {
    pictures.emplace_back(*kernel);
    width = std::max(width, pictures.back().width);
    height += pictures.back().height;
  }
  if (pictures.empty())
    return;
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << width << "\" height=\"" << height
     << "\">\n"
     << kStyle;
  unsigned top = 0;
  for (const Picture &picture : pictures) {
    Drawing(picture, top, os).run();
    top += picture.height;
  }
  os << "</svg>\n";
  if (llvm::Error error = writeFile(svg, text))
    session.reportNotWritten(std::move(error));
}

} // namespace dtile::driver
