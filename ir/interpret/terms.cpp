// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sums are kept once each, sorted by product, so that comparing two is comparing two numbers.
#include "ir/interpret/terms.h"

#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

namespace dtile::interpret {

namespace {

/// Products in all sums together, beyond which a run is too long to follow.
constexpr size_t kMaxEntries = 8'000'000;
/// Counts that differ less are equal: what is divided and multiplied again is rounded.
constexpr double kSmall = 1e-9;

/// DenseMap keeps two keys for itself.
uint64_t keyOf(uint64_t hash) { return hash >> 2; }

} // namespace

TermTable::TermTable() {
  // Number 0 is zero, and product 0 is one.
  sums_.emplace_back();
  products_.emplace_back();
  productsByHash_[keyOf(llvm::hash_combine_range(products_[0].begin(), products_[0].end()))] = {0};
  sumsByHash_[keyOf(llvm::hash_combine(size_t(0)))] = {0};
}

uint32_t TermTable::internProduct(Product product) {
  auto &alike = productsByHash_[keyOf(llvm::hash_combine_range(product.begin(), product.end()))];
  for (const uint32_t id : alike)
    if (products_[id] == product)
      return id;
  alike.push_back(uint32_t(products_.size()));
  products_.push_back(std::move(product));
  return uint32_t(products_.size() - 1);
}

TermId TermTable::intern(Sum sum) {
  llvm::erase_if(sum, [](const auto &entry) { return std::abs(entry.second) < kSmall; });
  size_t hash = sum.size();
  for (const auto &entry : sum)
    hash = llvm::hash_combine(hash, entry.first);
  auto &alike = sumsByHash_[keyOf(llvm::hash_combine(hash))];
  for (const uint32_t id : alike) {
    const Sum &other = sums_[id];
    const auto isSame = [](const auto &a, const auto &b) {
      return a.first == b.first && std::abs(a.second - b.second) < kSmall;
    };
    if (other.size() == sum.size() && std::equal(sum.begin(), sum.end(), other.begin(), isSame))
      return id;
  }
  entries_ += sum.size();
  if (entries_ > kMaxEntries) {
    giveUp("its sums are too long");
    return 0;
  }
  alike.push_back(uint32_t(sums_.size()));
  sums_.push_back(std::move(sum));
  return sums_.size() - 1;
}

TermId TermTable::ofAtom(uint32_t atom) { return intern({{internProduct({atom}), 1.0}}); }

TermId TermTable::known(TermId id) {
  if (!isUnwritten(id))
    return id;
  if (unwritten_ == 0) {
    atoms_.push_back({{}, true});
    unwritten_ = ofAtom(uint32_t(atoms_.size() - 1));
  }
  return unwritten_;
}

TermId TermTable::constant(double value) {
  if (!std::isfinite(value)) {
    const auto bits = static_cast<TermId>(std::isnan(value) ? 2 : value > 0 ? 1 : 0);
    return opaque(~0u - unsigned(bits), {});
  }
  return intern({{0, value}});
}

TermId TermTable::input(const InputElement &input) {
  atoms_.push_back({input, false});
  return ofAtom(uint32_t(atoms_.size() - 1));
}

TermId TermTable::add(TermId a, TermId b) {
  ++asked_;
  if (a == 0)
    return known(b);
  if (b == 0)
    return known(a);
  ++found_;
  a = known(a);
  b = known(b);
  if (a > b)
    std::swap(a, b);
  if (const auto it = added_.find({a, b}); it != added_.end())
    return it->second;
  const Sum &left = sums_[a];
  const Sum &right = sums_[b];
  Sum sum;
  sum.reserve(left.size() + right.size());
  auto i = left.begin();
  auto j = right.begin();
  while (i != left.end() || j != right.end()) {
    if (j == right.end() || (i != left.end() && i->first < j->first)) {
      sum.push_back(*i++);
    } else if (i == left.end() || j->first < i->first) {
      sum.push_back(*j++);
    } else {
      sum.emplace_back(i->first, i->second + j->second);
      ++i;
      ++j;
    }
  }
  const TermId id = intern(std::move(sum));
  added_[{a, b}] = id;
  return id;
}

uint32_t TermTable::productOf(uint32_t a, uint32_t b) {
  if (a > b)
    std::swap(a, b);
  if (a == 0)
    return b;
  if (const auto it = joined_.find({a, b}); it != joined_.end())
    return it->second;
  Product product(products_[a]);
  llvm::append_range(product, products_[b]);
  llvm::sort(product);
  const uint32_t id = internProduct(std::move(product));
  joined_[{a, b}] = id;
  return id;
}

TermId TermTable::multiply(TermId a, TermId b) {
  ++asked_;
  a = known(a);
  b = known(b);
  if (a == 0 || b == 0)
    return 0;
  ++found_;
  if (a > b)
    std::swap(a, b);
  if (const auto it = multiplied_.find({a, b}); it != multiplied_.end())
    return it->second;
  Sum sum;
  for (const auto &[left, leftCount] : sums_[a])
    for (const auto &[right, rightCount] : sums_[b])
      sum.emplace_back(productOf(left, right), leftCount * rightCount);
  llvm::sort(sum);
  Sum merged;
  for (const auto &entry : sum)
    if (!merged.empty() && merged.back().first == entry.first)
      merged.back().second += entry.second;
    else
      merged.push_back(entry);
  const TermId id = intern(std::move(merged));
  multiplied_[{a, b}] = id;
  return id;
}

TermId TermTable::scale(TermId a, double factor) {
  if (a == 0 || factor == 0)
    return 0;
  if (factor == 1)
    return known(a);
  if (!std::isfinite(factor))
    return opaque(~0u, {a});
  Sum sum = sums_[known(a)];
  for (auto &entry : sum)
    entry.second *= factor;
  return intern(std::move(sum));
}

TermId TermTable::opaque(unsigned function, llvm::ArrayRef<TermId> operands) {
  std::vector<TermId> ids;
  for (const TermId operand : operands)
    ids.push_back(known(operand));
  auto &alike = opaques_[keyOf(
      llvm::hash_combine(function, llvm::hash_combine_range(ids.begin(), ids.end())))];
  for (const auto &[key, id] : alike)
    if (key.front() == function && llvm::ArrayRef(key).drop_front() == llvm::ArrayRef(ids))
      return id;
  atoms_.push_back({{}, true});
  const TermId id = ofAtom(uint32_t(atoms_.size() - 1));
  ids.insert(ids.begin(), function);
  alike.emplace_back(std::move(ids), id);
  return id;
}

bool TermTable::isConstant(TermId id, double &value) const {
  if (isUnwritten(id))
    return false;
  const Sum &sum = sums_[id];
  value = sum.empty() ? 0 : sum.front().second;
  return sum.empty() || (sum.size() == 1 && sum.front().first == 0);
}

std::vector<TermTable::Addend> TermTable::addends(TermId id) const {
  std::vector<Addend> all;
  if (isUnwritten(id))
    return {Addend{{}, 1, true}};
  for (const auto &[product, count] : sums_[id]) {
    Addend addend;
    addend.count = count;
    for (const uint32_t atom : products_[product]) {
      addend.isOpaque |= atoms_[atom].isOpaque;
      if (!atoms_[atom].isOpaque)
        addend.factors.push_back(atoms_[atom].input);
    }
    all.push_back(std::move(addend));
  }
  return all;
}

} // namespace dtile::interpret
