-- A setting that is JSON, as a table; an empty one where it cannot be read, which must not stop the queue.
local function read_json(text)
  local decoded, value = pcall(cjson.decode, text or '')
  return decoded and type(value) == 'table' and value or {}
end
