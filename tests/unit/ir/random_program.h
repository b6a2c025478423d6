// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes random well-formed IR text, for tests that compare what programs compute.
#pragma once

#include <random>
#include <string>
#include <vector>

namespace dtile::testing {

/// One kernel, `k`, on one rank: it reads `in: i64[16]` and `fin: f32[16]`, and writes what it has
/// computed to `out: i64[64]` and `fout: f64[64]`. It has arithmetic on most element types, tiles,
/// branches, loops, calls and tokens; all loops end.
class RandomProgram {
public:
  explicit RandomProgram(uint64_t seed) : random_(seed) {}

  std::string text() {
    body_ = "";
    values_.clear();
    defined_ = 0;
    line("space @s {vars = []} {");
    inputs();
    statements(12 + pick(40), 0);
    results();
    line("yield");
    line("}");
    return header() + body_ + "return\n}\n";
  }

private:
  struct Typed {
    std::string name, type;
  };

  static std::string header() {
    return R"(
func @shared (%x: index, %y: index) {
  %z = const {value = 7} : index
  %a = mul %x, %z : index
  %b = sub %a, %y : index
  %c = cmp %b, %x {pred = "lt"} : bool
  %r = select %c, %b, %x : index
  return %r, %b
}
func @wide (%t: tile<4xi32>) {
  %s = tile.reduce %t {axis = 0, kind = "sum"} : i32
  return %s
}
kernel @k {
  %c16 = const {value = 16} : index
  %c64 = const {value = 64} : index
  %in = param @in %c16 {mode = "in", param = 0} : view<i64, 1>
  %fin = param @fin %c16 {mode = "in", param = 1} : view<f32, 1>
  %out = param @out %c64 {mode = "inout", param = 2} : view<i64, 1>
  %fout = param @fout %c64 {mode = "inout", param = 3} : view<f64, 1>
)";
  }

  /// A value of each scalar type that is not known before the program runs.
  void inputs() {
    for (const char *type :
         {"index", "index", "i8", "u8", "i32", "u32", "u64", "bool", "f32", "f32", "bf16", "f64"}) {
      const bool isInt = !isFloat(type);
      const std::string at = define("const {value = " + std::to_string(pick(16)) + "}", "index");
      const std::string cell =
          define("view.slice " + std::string(isInt ? "%in, " : "%fin, ") + at + " {dims = \"i\"}",
                 isInt ? "view<i64, 0>" : "view<f32, 0>");
      const std::string value = define("load " + cell, isInt ? "index" : "f32");
      if (std::string(type) != "index" && std::string(type) != "f32")
        define("cast " + value, type);
    }
  }

  unsigned pick(unsigned n) { return unsigned(random_() % n); }
  template <typename... T> std::string oneOf(T... choices) {
    const std::string list[] = {choices...};
    return list[pick(sizeof...(choices))];
  }
  void line(const std::string &text) { body_ += text + "\n"; }
  void add(const std::string &name, const std::string &type) { values_.push_back({name, type}); }
  std::string fresh() { return "%v" + std::to_string(defined_++); }
  std::string define(const std::string &op, const std::string &type) {
    const std::string name = fresh();
    line(name + " = " + op + " : " + type);
    add(name, type);
    return name;
  }

  std::string scalarType() {
    return oneOf("index", "i8", "u8", "i32", "u32", "u64", "bf16", "f32", "f64", "bool");
  }
  static bool isFloat(const std::string &type) {
    return type.find("f32") != type.npos || type.find("f64") != type.npos ||
           type.find("bf16") != type.npos;
  }
  static bool isTile(const std::string &type) { return type.starts_with("tile"); }
  static std::string boolLike(const std::string &type) {
    return isTile(type) ? "tile<4xbool>" : "bool";
  }

  /// A visible value of a type, newly made where there is none.
  std::string any(const std::string &type) {
    std::vector<const Typed *> found;
    for (const Typed &value : values_)
      if (value.type == type)
        found.push_back(&value);
    if (found.empty() || pick(10) == 0)
      return constant(type);
    // Mostly recent ones, so that chains are long.
    const size_t back = std::min<size_t>(found.size(), 1 + pick(pick(2) ? 6 : 100));
    return found[found.size() - back]->name;
  }

  std::string constant(const std::string &type) {
    if (isTile(type)) {
      const std::string element = type.substr(7, type.size() - 8);
      return define("tile.splat " + any(element), type);
    }
    std::string value = oneOf("0", "1", "2", "3", "5", "8", "16", "100");
    if (type == "bool")
      value = oneOf("true", "false");
    else if (isFloat(type))
      value = oneOf("0.0", "-0.0", "1.0", "-1.0", "0.5", "3.25", "100.0", "1e30", "inf", "nan");
    else if (type[0] != 'u' && pick(3) == 0)
      value = "-" + value;
    return define("const {value = " + value + "}", type);
  }

  void arithmetic() {
    const std::string type = pick(5) ? scalarType() : oneOf("tile<4xi32>", "tile<4xf32>");
    const bool isBool = type == "bool";
    std::string op;
    if (isBool)
      op = oneOf("and", "or", "xor");
    else if (isFloat(type))
      op = oneOf("add", "sub", "mul", "div");
    else
      op = oneOf("add", "sub", "mul", "div", "rem", "min", "max", "and", "or", "xor", "shl", "shr",
                 "add", "sub", "mul", "div", "rem");
    if (pick(5) == 0) {
      op = isBool ? "not" : isFloat(type) ? oneOf("neg", "abs", "floor") : oneOf("neg", "not");
      define(op + " " + any(type), type);
      return;
    }
    const std::string a = any(type);
    define(op + " " + a + ", " + (pick(8) ? any(type) : a), type);
  }

  /// Adds a value to one of the outputs, so that it counts in every iteration.
  void observe(const std::string &value, const std::string &type) {
    const std::string x = type == "index" ? value : define("cast " + value, "index");
    const std::string at = define("const {value = " + std::to_string(pick(32)) + "}", "index");
    const std::string cell = define("view.slice %out, " + at + " {dims = \"i\"}", "view<i64, 0>");
    define("atomic " + cell + ", " + x + " {kind = \"add\"}", "index");
  }

  /// Divisions and comparisons of values with known bounds: positions and narrow integers.
  void bounded() {
    std::string x = any("index");
    if (positions_.empty() || pick(2) == 0)
      x = define("cast " + any(oneOf("u8", "i8")), "index");
    else
      x = positions_[pick(unsigned(positions_.size()))];
    const auto small = [&](const char *values) {
      return define(std::string("const {value = ") + values + "}", "index");
    };
    if (pick(3) == 0) {
      const std::string factor = small(oneOf("4", "8", "-4").c_str());
      const std::string product = define("mul " + x + ", " + factor, "index");
      x = define("add " + product + ", " + (pick(2) ? x : small(oneOf("1", "3", "-1").c_str())),
                 "index");
    }
    const std::string limit =
        small(oneOf("1", "2", "3", "4", "5", "8", "0", "-4", "127", "128", "255", "-128").c_str());
    if (pick(2))
      observe(define(oneOf("div ", "rem ", "min ", "max ") + x + ", " + limit, "index"), "index");
    else
      observe(define("cmp " + x + ", " + limit + " {pred = \"" +
                         oneOf("eq", "ne", "lt", "le", "gt", "ge") + "\"}",
                     "bool"),
              "bool");
  }

  void compare() {
    const std::string type = pick(5) ? scalarType() : oneOf("tile<4xi32>", "tile<4xf32>");
    const std::string a = any(type), b = pick(4) ? any(type) : a;
    const std::string holds = define("cmp " + a + ", " + b + " {pred = \"" +
                                         oneOf("eq", "ne", "lt", "le", "gt", "ge") + "\"}",
                                     boolLike(type));
    if (!isTile(type))
      observe(holds, "bool");
  }

  void select() {
    const std::string type = pick(4) ? scalarType() : oneOf("tile<4xi32>", "tile<4xf32>");
    const std::string c = any(pick(2) ? "bool" : boolLike(type)), a = any(type), b = any(type);
    define("select " + c + ", " + a + ", " + b, type);
  }

  void cast() {
    if (pick(5) == 0) {
      define("cast " + any(oneOf("tile<4xi32>", "tile<4xf32>", "tile<4xbool>")),
             oneOf("tile<4xi32>", "tile<4xf32>"));
      return;
    }
    define("cast " + any(scalarType()), scalarType());
  }

  void tile() {
    switch (pick(4)) {
    case 0:
      define("tile.iota", "tile<4xi32>");
      return;
    case 1:
      define("tile.reduce " + any("tile<4xi32>") + " {axis = 0, kind = \"" +
                 oneOf("sum", "max", "min") + "\"}",
             "i32");
      return;
    case 2:
      define("call @wide " + any("tile<4xi32>"), "i32");
      return;
    default: {
      const std::string wide = define("tile.reshape " + any("tile<4xf32>"), "tile<1x4xf32>");
      const std::string turned = define("tile.trans " + wide + " {perm = [1, 0]}", "tile<4x1xf32>");
      define("tile.reshape " + turned, "tile<4xf32>");
      return;
    }
    }
  }

  void memory() {
    const bool isInt = pick(2);
    const std::string at = any("index");
    const std::string slot =
        define("view.slice " + std::string(isInt ? "%in, " : "%fin, ") + at + " {dims = \"i\"}",
               isInt ? "view<i64, 0>" : "view<f32, 0>");
    define("load " + slot, isInt ? "index" : "f32");
  }

  void store() {
    const bool isInt = pick(2);
    const std::string value = any(isInt ? "index" : "f64");
    const std::string at = define("const {value = " + std::to_string(pick(32)) + "}", "index");
    const std::string slot =
        define("view.slice " + std::string(isInt ? "%out, " : "%fout, ") + at + " {dims = \"i\"}",
               isInt ? "view<i64, 0>" : "view<f64, 0>");
    line("store " + value + ", " + slot);
  }

  void tokens() {
    const std::string a = fresh(), b = fresh();
    line(a + " = token.done : token");
    if (pick(2)) {
      line(b + " = token.join " + a + " : token");
      line("await " + b);
    } else {
      line("await " + a);
    }
  }

  void call() {
    const std::string x = any("index"), y = any("index");
    const std::string a = fresh(), b = fresh();
    line(a + ", " + b + " = call @shared " + x + ", " + y + " : index, index");
    add(a, "index");
    add(b, "index");
  }

  void branch(unsigned depth) {
    const std::string condition = any("bool"), first = scalarType(), second = scalarType();
    const std::string a = fresh(), b = fresh();
    line(a + ", " + b + " = if " + condition + " : " + first + ", " + second + " {");
    for (const bool isLast : {false, true}) {
      const size_t outer = values_.size();
      statements(pick(5), depth + 1);
      const std::string x = any(first), y = any(second);
      line("yield " + x + ", " + y);
      line(isLast ? "}" : "} {");
      values_.resize(outer);
    }
    add(a, first);
    add(b, second);
  }

  void loop(unsigned depth) {
    const std::string first = scalarType(), second = scalarType();
    const std::string x = any(first), y = any(second), start = any("index");
    const std::string lo = pick(2) ? define("const {value = 2}", "index") : start;
    const std::string trips = define("const {value = " + std::to_string(pick(4)) + "}", "index");
    // From lo to lo + trips; a sum that wraps gives no iterations.
    const std::string hi = define("add " + lo + ", " + trips, "index");
    const std::string step = define("const {value = " + std::to_string(1 + pick(2)) + "}", "index");
    const std::string a = fresh(), b = fresh(), i = fresh(), p = fresh(), q = fresh();
    line(a + ", " + b + " = for " + lo + ", " + hi + ", " + step + ", " + x + ", " + y + " : " +
         first + ", " + second + " (" + i + ": index, " + p + ": " + first + ", " + q + ": " +
         second + ") {");
    const size_t outer = values_.size();
    add(p, first);
    add(q, second);
    add(i, "index");
    positions_.push_back(i);
    statements(1 + pick(6), depth + 1);
    positions_.pop_back();
    const std::string u = any(first), v = any(second);
    line("yield " + u + ", " + v);
    line("}");
    values_.resize(outer);
    add(a, first);
    add(b, second);
  }

  void statements(unsigned count, unsigned depth) {
    for (unsigned n = 0; n < count; ++n) {
      const unsigned kind = pick(depth < 3 ? 20 : 17);
      if (kind < 5)
        arithmetic();
      else if (kind < 7)
        bounded();
      else if (kind < 9)
        compare();
      else if (kind < 10)
        select();
      else if (kind < 12)
        cast();
      else if (kind < 13)
        tile();
      else if (kind < 14)
        memory();
      else if (kind < 15)
        store();
      else if (kind < 16)
        call();
      else if (kind < 17)
        tokens();
      else if (kind < 18)
        branch(depth);
      else
        loop(depth);
    }
  }

  /// Writes the last values of each type to the second half of the outputs.
  void results() {
    unsigned slot = 32;
    const std::vector<Typed> all(values_.end() - std::min<size_t>(values_.size(), 24),
                                 values_.end());
    for (const Typed &value : all) {
      if (isTile(value.type) || value.type.starts_with("view"))
        continue;
      for (const std::string target : {"out", "fout"}) {
        const bool isInt = target == "out";
        const std::string at = define("const {value = " + std::to_string(slot) + "}", "index");
        const std::string cell = define("view.slice %" + target + ", " + at + " {dims = \"i\"}",
                                        isInt ? "view<i64, 0>" : "view<f64, 0>");
        const std::string cast = define("cast " + value.name, isInt ? "index" : "f64");
        line("store " + cast + ", " + cell);
      }
      ++slot;
    }
  }

  std::mt19937_64 random_;
  std::string body_;
  std::vector<Typed> values_;
  /// Of the loops around the place.
  std::vector<std::string> positions_;
  unsigned defined_ = 0;
};

} // namespace dtile::testing
