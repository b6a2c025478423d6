;;; dtile-mode.el --- Major mode for dtile, with its language server  -*- lexical-binding: t; -*-
;; SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
;; Package-Requires: ((emacs "29.1"))

;;; Commentary:
;; Words, comments and indentation, and `dtilec lsp' through Eglot, which Emacs 29 has.

;;; Code:
(require 'prog-mode)

(defgroup dtile nil "The dtile language." :group 'languages)

(defcustom dtile-command '("dtilec" "lsp")
  "The language server, and where imports are looked for (\"-I\" \"kernels\")."
  :type '(repeat string))

(defconst dtile-keywords
  '("after" "await" "break" "const" "continue" "else" "ensures" "expect" "fn" "for" "if" "import"
    "kernel" "let" "over" "overlap" "plan" "return" "role" "var" "when" "while" "yield"))

(defconst dtile-context-words
  '("all" "as" "assume" "atol" "because" "bench" "by" "copy_engine" "extern" "in" "inout" "mesh"
    "ordered" "out" "programs" "ranks" "requires" "rtol" "scratch" "symm" "test" "unordered" "with"))

(defconst dtile-font-lock
  `((,(regexp-opt dtile-keywords 'symbols) . font-lock-keyword-face)
    (,(regexp-opt dtile-context-words 'symbols) . font-lock-builtin-face)
    (,(regexp-opt '("true" "false") 'symbols) . font-lock-constant-face)
    ("\\_<\\(?:fn\\|kernel\\|plan\\|overlap\\|role\\)\\s-+\\(\\(?:\\sw\\|\\s_\\)+\\)"
     1 font-lock-function-name-face)))

(defvar dtile-mode-syntax-table
  (let ((table (make-syntax-table)))
    (modify-syntax-entry ?/ ". 124b" table)
    (modify-syntax-entry ?* ". 23" table)
    (modify-syntax-entry ?\n "> b" table)
    (modify-syntax-entry ?_ "_" table)
    table))

(defun dtile-indent-line ()
  "Indent by four columns for each bracket that is open."
  (interactive)
  (let ((depth (save-excursion
                 (back-to-indentation)
                 (let ((open (car (syntax-ppss))))
                   (if (looking-at "[])}]") (max 0 (1- open)) open)))))
    (if (<= (current-column) (current-indentation))
        (indent-line-to (* 4 depth))
      (save-excursion (indent-line-to (* 4 depth))))))

;;;###autoload
(define-derived-mode dtile-mode prog-mode "dtile"
  "Major mode for dtile."
  (setq-local comment-start "// "
              comment-end ""
              indent-tabs-mode nil
              indent-line-function #'dtile-indent-line
              font-lock-defaults '(dtile-font-lock)))

;;;###autoload
(add-to-list 'auto-mode-alist '("\\.dtile\\'" . dtile-mode))

(with-eval-after-load 'eglot
  (add-to-list 'eglot-server-programs
               `(dtile-mode . ,(lambda (&rest _) dtile-command))))

(provide 'dtile-mode)
;;; dtile-mode.el ends here
