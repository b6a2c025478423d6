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

/// Of what opaques_ has; DenseMap keeps two keys for itself.
uint64_t keyOf(uint64_t hash) { return hash >> 2; }

} // namespace

TermTable::TermTable() {
  // Number 0 is zero, and product 0 is one.
  internProduct({});
  internMade();
}

uint32_t TermTable::internProduct(Product product) {
  uint64_t hash = 0;
  for (const uint32_t atom : product)
    hash = mixed(hash + atom + 1);
  const uint32_t known =
      productsByHash_.find(hash, [&](uint32_t id) { return products_[id] == product; });
  if (known != IdTable::kNone)
    return known;
  const auto id = uint32_t(products_.size());
  productsByHash_.insert(hash, id);
  products_.push_back(std::move(product));
  return id;
}

TermId TermTable::internMade() {
  llvm::erase_if(made_, [](const Entry &entry) { return std::abs(entry.second) < kSmall; });
  uint64_t hash = made_.size();
  for (const Entry &entry : made_)
    hash = mixed(hash + entry.first);
  const auto isSame = [](const Entry &a, const Entry &b) {
    return a.first == b.first && std::abs(a.second - b.second) < kSmall;
  };
  const uint32_t known = sumsByHash_.find(hash, [&](uint32_t id) {
    const Sum other = sums_[id];
    return other.size() == made_.size() &&
           std::equal(made_.begin(), made_.end(), other.begin(), isSame);
  });
  if (known != IdTable::kNone)
    return known;
  entries_ += made_.size();
  if (entries_ > kMaxEntries) {
    giveUp("its sums are too long");
    return 0;
  }
  const auto id = uint32_t(sums_.size());
  sumsByHash_.insert(hash, id);
  sums_.push_back(llvm::ArrayRef(made_).copy(entriesOfSums_));
  return id;
}

TermId TermTable::ofAtom(uint32_t atom) {
  made_.assign(1, {internProduct({atom}), 1.0});
  return internMade();
}

TermId TermTable::ofUnwritten() {
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
  made_.assign(1, {0, value});
  return internMade();
}

TermId TermTable::input(const InputElement &input) {
  atoms_.push_back({input, false});
  return ofAtom(uint32_t(atoms_.size() - 1));
}

TermId TermTable::addSums(TermId a, TermId b) {
  ++found_;
  if (a > b)
    std::swap(a, b);
  const uint64_t key = pairKey(uint32_t(a), uint32_t(b));
  if (const uint32_t known = added_.find(key); known != IdTable::kNone)
    return known;
  const Sum left = sums_[a];
  const Sum right = sums_[b];
  made_.clear();
  const auto *i = left.begin();
  const auto *j = right.begin();
  while (i != left.end() && j != right.end()) {
    if (i->first < j->first)
      made_.push_back(*i++);
    else if (j->first < i->first)
      made_.push_back(*j++);
    else {
      made_.emplace_back(i->first, i->second + j->second);
      ++i;
      ++j;
    }
  }
  made_.insert(made_.end(), i, left.end());
  made_.insert(made_.end(), j, right.end());
  const TermId id = internMade();
  added_.insert(key, uint32_t(id));
  return id;
}

uint32_t TermTable::productOf(uint32_t a, uint32_t b) {
  if (a > b)
    std::swap(a, b);
  if (a == 0)
    return b;
  const uint64_t key = pairKey(a, b);
  if (const uint32_t known = joined_.find(key); known != IdTable::kNone)
    return known;
  Product product(products_[a]);
  llvm::append_range(product, products_[b]);
  llvm::sort(product);
  const uint32_t id = internProduct(std::move(product));
  joined_.insert(key, id);
  return id;
}

TermId TermTable::multiplySums(TermId a, TermId b) {
  ++found_;
  if (a > b)
    std::swap(a, b);
  const uint64_t key = pairKey(uint32_t(a), uint32_t(b));
  if (const uint32_t known = multiplied_.find(key); known != IdTable::kNone)
    return known;
  made_.clear();
  for (const auto &[left, leftCount] : sums_[a])
    for (const auto &[right, rightCount] : sums_[b])
      made_.emplace_back(productOf(left, right), leftCount * rightCount);
  llvm::sort(made_);
  // Each product once.
  size_t size = 0;
  for (const Entry &entry : made_)
    if (size != 0 && made_[size - 1].first == entry.first)
      made_[size - 1].second += entry.second;
    else
      made_[size++] = entry;
  made_.resize(size);
  const TermId id = internMade();
  multiplied_.insert(key, uint32_t(id));
  return id;
}

TermId TermTable::scale(TermId a, double factor) {
  if (a == 0 || factor == 0)
    return 0;
  if (factor == 1)
    return known(a);
  if (!std::isfinite(factor))
    return opaque(~0u, {a});
  const Sum sum = sums_[known(a)];
  made_.assign(sum.begin(), sum.end());
  for (Entry &entry : made_)
    entry.second *= factor;
  return internMade();
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
  const Sum sum = sums_[id];
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
