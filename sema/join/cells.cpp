// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Merges what writes and reads of a tensor tell apart.
#include "sema/join/cells.h"

#include "sema/join/make.h"

#include "frontend/ast/source_printer.h"
#include "frontend/base/check.h"
#include "sema/join/rewriter.h"
#include "llvm/ADT/SmallSet.h"

namespace dtile::join {

namespace {

using Kind = Extent::Kind;

// An expression with the names that are defined before the roles replaced: shapes do not see these.
class Unfolder : public Rewriter {
public:
  Unfolder(ast::Arena &arena, const Values &lets, SourceRange at) : Rewriter(arena), lets_(lets) {
    place_ = at;
  }

protected:
  ast::Expr *replaced(const ast::Expr &e) override {
    const ast::Expr *value = lets_.lookup(nameOf(&e));
    return value == nullptr ? nullptr : expr(value);
  }

private:
  const Values &lets_;
};

class Merger {
public:
  Merger(Joint &joint, const Published &tensor, const Values &lets)
      : joint_(joint), tensor_(tensor), lets_(lets) {}

  bool addWrite(const Access &access) {
    for (unsigned dim = 0; dim < tensor_.shape.size(); ++dim)
      if (dim < access.extents.size() && !addExtent(access, dim))
        return false;
    return true;
  }

  void addRead(const Access &access) {
    if (access.isRemote)
      cells_.along = !cells_.isReadElsewhere || cells_.along == access.along ? access.along
                                                                             : llvm::StringRef();
    (access.isRemote ? cells_.isReadElsewhere : cells_.isReadHere) = true;
    for (Cell &cell : cells_.cells) {
      const Kind kind = access.extents[cell.dim].kind;
      const bool asksForAll =
          kind == Kind::Whole || (kind == Kind::Other && !access.extents[cell.dim].isRange);
      (access.isRemote ? cell.isAskedElsewhere : cell.isAskedHere) |= !asksForAll;
    }
  }

  Cells take() { return std::move(cells_); }

private:
  Cell *cellOf(unsigned dim) {
    const auto found =
        llvm::find_if(cells_.cells, [&](const Cell &cell) { return cell.dim == dim; });
    return found == cells_.cells.end() ? nullptr : &*found;
  }

  bool report(const Access &access, unsigned dim) {
    joint_.diags.report(access.range, diag::not_affine, tensor_.written, dim);
    return false;
  }

  bool addExtent(const Access &access, unsigned dim) {
    const Extent &extent = access.extents[dim];
    switch (extent.kind) {
    case Kind::Whole:
      return true;
    case Kind::Other:
      return extent.isRange ? merge(dim) : report(access, dim);
    case Kind::Block:
      if (!isSame(extent.domain, tensor_.shape[dim], lets_)) {
        joint_.diags
            .report(access.range, diag::does_not_cover, tensor_.written, dim, textOf(extent.domain),
                    textOf(tensor_.shape[dim]))
            .note(tensor_.range, diag::note_declared_here, tensor_.written);
        return false;
      }
      break;
    case Kind::BlockOfPart:
      if (access.bounds[dim] == nullptr)
        return merge(dim);
      break;
    case Kind::Position:
      break;
    }
    if (merged_.contains(dim))
      return true;
    Cell *known = cellOf(dim);
    if (known == nullptr) {
      cells_.cells.push_back({dim, extent, access.bounds[dim]});
      llvm::sort(cells_.cells, [](const Cell &a, const Cell &b) { return a.dim < b.dim; });
      return true;
    }
    const Kind kind = known->extent.kind;
    const bool isSameParts = kind == Kind::BlockOfPart && extent.kind == kind &&
                             isSame(known->extent.domain, extent.domain, lets_);
    const bool fits =
        kind == Kind::BlockOfPart ? isSameParts : kind == extent.kind || kind == Kind::Block;
    const bool isOfPart = extent.kind == Kind::BlockOfPart;
    return isSameParts || (fits && !isOfPart) || merge(dim);
  }

  // Writes that have no chunks in common are not told apart: readers wait for all of them.
  bool merge(unsigned dim) {
    merged_.insert(dim);
    llvm::erase_if(cells_.cells, [&](const Cell &cell) { return cell.dim == dim; });
    return true;
  }

  Joint &joint_;
  const Published &tensor_;
  const Values &lets_;
  llvm::SmallSet<unsigned, 4> merged_;
  Cells cells_;
};

class Indexer {
public:
  Indexer(const Joint &joint, const Extent &cell, const Extent &extent, SourceRange at,
          const Values &lets)
      : joint_(joint), cell_(cell), extent_(extent), make_{joint.arena, at}, lets_(lets) {}

  void run(llvm::SmallVectorImpl<ast::Expr *> &to) {
    switch (cell_.kind) {
    case Kind::Position:
      to.push_back(extent_.kind == Kind::Position || extent_.isRange ? copied(extent_.index)
                                                                     : make_.whole());
      return;
    case Kind::Block:
      to.push_back(blocks());
      return;
    case Kind::BlockOfPart:
      if (extent_.kind == Kind::BlockOfPart && isSame(cell_.domain, extent_.domain, lets_)) {
        to.push_back(copied(extent_.part));
        to.push_back(blockNumber());
      } else {
        to.push_back(make_.whole());
        to.push_back(make_.whole());
      }
      return;
    case Kind::Whole:
    case Kind::Other:
      break;
    }
    DTILE_UNREACHABLE("a cell that is told apart");
  }

private:
  ast::Expr *copied(const ast::Expr *e) const {
    return Unfolder(joint_.arena, {}, make_.at).expr(e);
  }

  ast::Expr *numberOf(ast::Expr *range) {
    return make_.call(make_.member(range, "blocks"), ast::Arg{{}, copied(cell_.step)});
  }
  // Of a block in its space: its number where chunks are as long.
  ast::Expr *blockNumber() {
    ast::Expr *block = make_.name(extent_.block);
    return isSame(extent_.step, cell_.step, lets_) ? make_.member(block, "index") : numberOf(block);
  }
  ast::Expr *blocks() {
    switch (extent_.kind) {
    case Kind::Block:
      return isSame(extent_.domain, cell_.domain, lets_) ? blockNumber()
                                                         : numberOf(copied(extent_.index));
    case Kind::BlockOfPart:
      return numberOf(copied(extent_.index));
    case Kind::Position:
      return make_.binary(ast::BinaryOp::Div, copied(extent_.index), copied(cell_.step));
    case Kind::Whole:
    case Kind::Other:
      return extent_.isRange ? numberOf(copied(extent_.index)) : make_.whole();
    }
    DTILE_UNREACHABLE("a kind of extent");
  }

  const Joint &joint_;
  const Extent &cell_;
  const Extent &extent_;
  Make make_;
  const Values &lets_;
};

} // namespace

std::optional<Cells> cellsOf(Joint &joint, const Published &tensor, size_t number,
                             llvm::ArrayRef<Access> accesses, const Values &lets) {
  Merger merger(joint, tensor, lets);
  for (const Access &access : accesses)
    if (access.tensor == number && access.isWrite && !merger.addWrite(access))
      return std::nullopt;
  for (const Access &access : accesses)
    if (access.tensor == number && !access.isWrite)
      merger.addRead(access);
  return merger.take();
}

llvm::SmallVector<ast::Expr *, 4> cellIndices(const Joint &joint, const Cells &cells,
                                              llvm::ArrayRef<Extent> extents, SourceRange at,
                                              bool isElsewhere, const Values &lets) {
  llvm::SmallVector<ast::Expr *, 4> indices;
  for (const Cell &cell : cells.cells)
    if (isElsewhere ? cell.isAskedElsewhere : cell.isAskedHere)
      Indexer(joint, cell.extent, extents[cell.dim], at, lets).run(indices);
  if (indices.empty() && !isElsewhere)
    indices.push_back(Make{joint.arena, at}.number(0));
  return indices;
}

llvm::SmallVector<ast::Expr *, 4> cellShape(const Joint &joint, const Cells &cells,
                                            const Published &tensor, SourceRange at,
                                            bool isElsewhere, const Values &lets) {
  const Make make{joint.arena, at};
  Unfolder unfolder(joint.arena, lets, at);
  llvm::SmallVector<ast::Expr *, 4> shape;
  for (const Cell &cell : cells.cells) {
    if (isElsewhere ? !cell.isAskedElsewhere : !cell.isAskedHere)
      continue;
    const Extent &extent = cell.extent;
    if (extent.kind == Kind::Position) {
      shape.push_back(unfolder.expr(tensor.shape[cell.dim]));
      continue;
    }
    if (extent.kind == Kind::BlockOfPart)
      shape.push_back(unfolder.expr(cell.bound));
    shape.push_back(
        make.call("blocks", {unfolder.expr(extent.domain), unfolder.expr(extent.step)}));
  }
  if (shape.empty() && !isElsewhere)
    shape.push_back(make.number(1));
  return shape;
}

} // namespace dtile::join
