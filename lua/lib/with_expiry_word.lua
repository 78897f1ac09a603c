-- The fields of a state (lib/state) with the time when the redriven message expires; nil: never.
-- gives: with_expiry_word
local function with_expiry_word(more, expires)
  return more:gsub(' expires=%S*', '') .. (expires and string.format(' expires=%.0f', expires) or '')
end
