-- Injected files are the guest's alone; user data end with their server.
UPDATE instances SET injected_files = '[]' WHERE injected_files <> '[]';
UPDATE instances SET user_data = NULL WHERE deleted AND user_data IS NOT NULL;
